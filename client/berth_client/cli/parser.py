"""The verbs of `berth` and their options."""

from __future__ import annotations

import argparse

from berth_client import __version__
from berth_client.cli import (
    artefacts,
    cluster,
    completion,
    forward,
    jobs,
    lab,
    login,
    logs,
    members,
    secrets,
    shell,
    submit,
    templates,
    usage,
)

DESCRIPTION = """\
Asks a Berth over REST. Which one: BERTH_URL and BERTH_TOKEN, else what `login` wrote down.
Exit codes: 0 done; 2 the portal says no, or the command is wrong; 1 the portal does not answer, or the
awaited job did not end well; with --wait and --follow the job's own."""


def parser_make(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=prog, description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=__version__)
    verbs = parser.add_subparsers(required=True, metavar="VERB", dest="verb")
    for room in (
        login,
        submit,
        templates,
        secrets,
        jobs,
        logs,
        shell,
        forward,
        artefacts,
        cluster,
        members,
        usage,
        lab,
        completion,
    ):
        room.parsers_add(verbs)
    return parser
