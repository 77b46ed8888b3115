"""`python -m portal.launch.guarded DIR MODULE ...`: runs a module in a process that others of the account cannot look into.

No ptrace, no /proc/PID/environ or mem, no core file (PR_SET_DUMPABLE). exec undoes it, so each process of ours does it for
itself. DIR is the data directory. It is on the command line, because the environment of such a process cannot be read: a
supervisor finds by it what a killed one left.
"""

import ctypes
import runpy
import sys

MODULE = "portal.launch.guarded"
_PR_SET_DUMPABLE = 4


def hide() -> None:
    """Hide this process. On macOS, which has nothing like it, do nothing."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, ctypes.c_ulong(0), 0, 0, 0)


def guarded_argv(directory: str, *arguments: str) -> list[str]:
    """Return the command line that runs `python -m MODULE ...` hidden."""
    return [sys.executable, "-m", MODULE, directory, *arguments]


def directory_of(argv: list[str]) -> str | None:
    """Return the data directory in a process's command line; None when it does not run by this module."""
    for at, word in enumerate(argv[:-2]):
        if word == "-m" and argv[at + 1] == MODULE:
            return argv[at + 2]
    return None


if __name__ == "__main__":
    hide()
    _, _, name, *rest = sys.argv
    sys.argv[:] = [name, *rest]
    runpy.run_module(name, run_name="__main__", alter_sys=True)
