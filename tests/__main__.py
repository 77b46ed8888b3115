"""`./berth test [--fast | --all] [pytest arguments]`: runs pytest, with several processes that share the files.

Without a flag it leaves out the tests that are marked `slow`. --all runs these too, --fast leaves out all that need a database,
a process or a server and draws a quarter of Hypothesis's examples (docs/decisions/0214). The linters are tests (test_house.py).
Only `-m gpu` runs tests that need a GPU. Files and tests that are named run in one process, the slow ones too.
"""

import os
import sys

NOT_FAST = ("system", "browser", "postgres", "gpu", "impure", "slow")
FAST = ["-q", "--fewer-examples", "-m", " and ".join(f"not {mark}" for mark in NOT_FAST)]
DAILY, ALL = ["-m", "not gpu and not slow"], ["-m", "not gpu"]
SHARED = ["--dist", "loadfile", "--no-loadscope-reorder"]
"""Files with one `xdist_group` mark come to one process, any other file by itself, in the order of tests/order.py."""
AGAIN = ["--max-suite-reruns", "5", "--rerun-show-tracebacks"]
"""More failures of tests with servers are no accident of a busy machine."""
WAITING = 3
"""Processes beyond the number of cores: most tests with servers wait."""
MOST_PROCESSES = 8
LEFT_OUT = {"PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "BERTH_DATA_DIR", "DJANGO_SETTINGS_MODULE"}


def arguments_for(given, cores):
    """Return pytest's arguments for those of `./berth test`."""
    rest = [each for each in given if each not in {"--fast", "--all"}]
    named = [each for each in rest if os.path.exists(each.partition("::")[0])]  # noqa: PTH110 - quick to load
    if "--fast" in given:
        kind, processes = FAST, 0 if any(map(os.path.isfile, named)) or "::" in "".join(named) else cores
    else:
        kind, processes = (ALL if "--all" in given or named else DAILY), 0 if named else cores + WAITING
    if "-m" in rest:
        kind = []
    shared = ["-n", str(min(processes, MOST_PROCESSES)), *SHARED] if processes > 1 else []
    return [*kind, *shared, *AGAIN, *rest]


def environment_of(ours):
    """Return pytest's environment, without variables that point to an installation."""
    kept = {name: value for name, value in ours.items() if name not in LEFT_OUT}
    return kept | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


if __name__ == "__main__":
    os.chdir(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # noqa: PTH100, PTH120
    arguments = arguments_for(sys.argv[1:], len(os.sched_getaffinity(0)))
    os.execve(sys.executable, [sys.executable, "-m", "pytest", *arguments], environment_of(os.environ))
