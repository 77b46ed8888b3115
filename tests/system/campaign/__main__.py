"""Run a campaign and print its verdict; the exit code is 1 when something was that must not be."""

import argparse
import dataclasses
import json
import random
import signal
import sys
import tempfile
from pathlib import Path

import pytest

from portal.foundation.layout import SOURCE
from tests.system.campaign.campaign import campaign
from tests.system.campaign.faults import FAULTS


def main(words=None):
    parser = argparse.ArgumentParser(prog="python -m tests.system.campaign", description=__doc__)
    parser.add_argument(
        "--seconds", type=float, default=900, help="how long faults come (default 900: each at least once)"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float, default=1.5, help="jobs submitted each second (default 1.5)")
    parser.add_argument("--lease", type=int, default=20, metavar="S", help="length of leases (default 20 s)")
    parser.add_argument("--faults", type=lambda text: text.split(","), default=list(FAULTS), help=", ".join(FAULTS))
    parser.add_argument("--source", type=Path, default=SOURCE, help="the code to try (default: this)")
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON")
    options = parser.parse_args(words)
    if unknown := set(options.faults) - set(FAULTS):
        parser.error(f"--faults: no such fault: {', '.join(sorted(unknown))}; there are {', '.join(FAULTS)}")
    say = (lambda *_: None) if options.json else print
    with tempfile.TemporaryDirectory(prefix="campaign-") as directory:
        try:
            verdict, recoveries = campaign(
                Path(directory),
                seconds=options.seconds,
                rng=random.Random(options.seed),
                rate=options.rate,
                lease_s=options.lease,
                faults=options.faults,
                source=options.source,
                say=say,
            )
        except pytest.skip.Exception as why:  # of a disk or a clock of its own
            parser.error(f"{why}. Name with --faults those that need neither")
    found = dataclasses.asdict(verdict) | {"well again after s": recoveries}
    print(json.dumps(found, indent=None if options.json else 2))
    return int(bool(verdict.faults))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what was started is ended then, too
    sys.exit(main())
