"""All processes that this one started, also detached ones: as a subreaper it becomes the parent of orphans (prctl(2))."""

import contextlib
import ctypes
import os
import time

import psutil

PR_SET_CHILD_SUBREAPER = 36
ENDING_S = 1.0


def become_subreaper() -> None:
    """Become the parent of all orphans among our descendants, in place of init. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def living() -> list[psutil.Process]:
    """Return our descendants that run. Collect those that have ended."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
            elif process.ppid() == os.getpid():
                process.wait(timeout=0)
    return found


def _where(process: psutil.Process) -> str:
    """Tell its folder, which names the test that left it; nothing where it hides that."""
    try:
        return f" in {process.cwd()}"
    except psutil.AccessDenied:
        return ""


def end_all(*, patience_s: float) -> list[str]:
    """Send SIGTERM to every descendant, after the patience SIGKILL, until none lives; return their command lines and folders.

    A process that ends by itself within ENDING_S is neither killed nor returned.
    """
    psutil.wait_procs(living(), timeout=ENDING_S)
    words: dict[int, str] = {}
    deadline = time.monotonic() + patience_s
    while found := living():
        late = time.monotonic() > deadline
        for process in found:
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                first = process.pid not in words
                words.setdefault(process.pid, f"{process.pid} {' '.join(process.cmdline())[:100]}{_where(process)}")
                if late:
                    process.kill()
                elif first:
                    process.terminate()
        psutil.wait_procs(found, timeout=0.2)
    return list(words.values())
