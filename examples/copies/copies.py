"""Copies memory for a while: a job that takes memory bandwidth from its neighbours. Python alone.

It rests first, then copies without pause, then seldom. On a virtual node it keeps to BERTH_VIRTUAL_PACE, the share of a real core
that full work on one of its cores takes, for the cores that it has now (BERTH_CORES_FILE).
"""

import argparse
import os
import time
from pathlib import Path

BLOCK = 32 * 2**20
SLICE_S = 0.2
SELDOM = 0.1


def cores() -> int:
    """Return how many cores it has now: Berth may take some away while it runs."""
    told = os.environ.get("BERTH_CORES_FILE")
    return int(Path(told).read_text()) if told else len(os.sched_getaffinity(0))


def copy(seconds: float, share: float) -> int:
    """Copy for so long, a share of the time; return the bytes that were copied."""
    source, target = bytearray(os.urandom(4096)) * (BLOCK // 4096), bytearray(BLOCK)
    end, moved = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        begun, used = time.monotonic(), time.process_time()
        pace = share * min(1.0, float(os.environ.get("BERTH_VIRTUAL_PACE") or 1) * cores())
        while time.process_time() - used < SLICE_S * pace:
            target[:] = source
            moved += BLOCK
        time.sleep(max(0.0, SLICE_S - (time.monotonic() - begun)))
    return moved


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rest", type=float, default=0, help="seconds before it begins")
    parser.add_argument("--work", type=float, default=60, help="seconds of copying without pause")
    parser.add_argument("--seldom", type=float, default=0, help="seconds of copying now and then, afterwards")
    options = parser.parse_args()
    time.sleep(options.rest)
    for name, seconds, share in (("without pause", options.work, 1.0), ("now and then", options.seldom, SELDOM)):
        moved = copy(seconds, share)
        print(f"copied {moved / 1e9:.1f} GB in {seconds:g} s, {name}, at last with {cores()} cores", flush=True)


if __name__ == "__main__":
    main()
