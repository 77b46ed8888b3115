"""All processes that this one started, however they detached: as a subreaper it inherits every orphan (prctl(2))."""

import contextlib
import ctypes
import os
import time

import psutil

PR_SET_CHILD_SUBREAPER = 36
ENDING_S = 1.0


def become_subreaper() -> None:
    """From now on an orphan among our descendants becomes our child, not init's. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def living() -> list[psutil.Process]:
    """Our descendants that run; those that ended are collected."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
            elif process.ppid() == os.getpid():
                process.wait(timeout=0)
    return found


def end_all(*, patience_s: float) -> list[str]:
    """SIGTERM to every descendant, SIGKILL to what is left after the patience, until none lives; what they were.

    What ends by itself in a moment, as a helper does whose pipe has just closed, is neither killed nor named.
    """
    psutil.wait_procs(living(), timeout=ENDING_S)
    words: dict[int, str] = {}
    deadline = time.monotonic() + patience_s
    while found := living():
        late = time.monotonic() > deadline
        for process in found:
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                first = process.pid not in words
                words.setdefault(process.pid, f"{process.pid} {' '.join(process.cmdline())[:100]}")
                if late:
                    process.kill()
                elif first:
                    process.terminate()
        psutil.wait_procs(found, timeout=0.2)
    return list(words.values())
