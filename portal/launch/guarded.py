"""`python -m portal.launch.guarded DIR MODULE ...`: runs a module in a process that others of the account cannot look into.

No ptrace, no /proc/PID/environ or mem, no core file (PR_SET_DUMPABLE). exec undoes it, so each process of ours does it for
itself. DIR is the data directory. It is on the command line, because the environment of such a process cannot be read: a
supervisor finds by it what a killed one left.

It also ends quickly: the process is gone at once, instead of taking apart every object of the interpreter first. That saves a
fifth of a second of processor time for each service of a Berth that stops.
"""

import atexit
import ctypes
import os
import runpy
import sys
import threading

from portal.foundation.deep_calls import roomy

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


def run(name: str) -> int | None:
    """Run a module as `python -m` does; the exit code it ended with, None where Python has something to say of it."""
    try:
        roomy(runpy.run_module, name, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if end.code is not None and not isinstance(end.code, int):
            raise
        return end.code or 0
    return 0


def leave(code: int) -> None:
    """Do as Python does at its end, but for taking its objects apart: threads, `atexit`, the database, the last output."""
    threading._shutdown()  # type: ignore[attr-defined] # noqa: SLF001 - no public name, as multiprocessing knows too
    atexit._run_exitfuncs()  # noqa: SLF001
    database = sys.modules.get("django.db")
    if database is not None:
        database.connections.close_all()  # the last to leave puts SQLite's write-ahead log back into its file
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    hide()
    pid = os.getpid()
    _, _, module, *rest = sys.argv
    sys.argv[:] = [module, *rest]
    ended = run(module)
    if ended is not None and pid == os.getpid():
        leave(ended)
    sys.exit(ended)
