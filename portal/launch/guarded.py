"""`python -m portal.launch.guarded DIR MODULE ...`: run a module as a process that others of the account cannot look into.

No ptrace, no /proc/PID/environ or mem, no core file (PR_SET_DUMPABLE); exec undoes it, so each process of ours does it for
itself. DIR, the data directory, is on the command line because the environment can no longer be read by a supervisor
that wants to know what a killed one left.
"""

import ctypes
import runpy
import sys

MODULE = "portal.launch.guarded"
_PR_SET_DUMPABLE = 4


def hide() -> None:
    """Hide this process; where the system knows no such thing (macOS) it stays as it is."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, ctypes.c_ulong(0), 0, 0, 0)


def guarded_argv(directory: str, *arguments: str) -> list[str]:
    """The command line of `python -m MODULE ...` under the guard."""
    return [sys.executable, "-m", MODULE, directory, *arguments]


def directory_of(argv: list[str]) -> str | None:
    """The data directory that a process with this command line serves; None when it is not guarded."""
    for at, word in enumerate(argv[:-2]):
        if word == "-m" and argv[at + 1] == MODULE:
            return argv[at + 2]
    return None


if __name__ == "__main__":
    hide()
    _, _, name, *rest = sys.argv
    sys.argv[:] = [name, *rest]
    runpy.run_module(name, run_name="__main__", alter_sys=True)
