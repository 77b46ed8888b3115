"""Signs of life: a process that `./berth up` started writes its pid into an inherited pipe every few seconds.

Silence means that it hangs. A pipe needs no disk, no network and no broker, and it ends with its reader. Whoever is not
started by `./berth up` has no pipe, and every call here does nothing.
"""

from __future__ import annotations

import os
import stat
import threading
import time

VARIABLE = "BERTH_ALIVE_DESCRIPTOR"
MARK = "BERTH_SUPERVISED"
"""Names the data directory to each process that `./berth up` starts, agents left out: the shims of jobs would inherit it."""
PERIOD_S = 2.0


def _descriptor_take() -> int | None:
    """Take the pipe's number out of the environment: a process started from here has another file under it."""
    raw = os.environ.pop(VARIABLE, "")
    if not raw.isdecimal():
        return None
    try:
        return int(raw) if stat.S_ISFIFO(os.fstat(int(raw)).st_mode) else None
    except OSError:
        return None


_descriptor = _descriptor_take()


def adopt(descriptor: int | None) -> None:
    """Sign into this pipe from now on: for a process that was forked after this module was loaded."""
    global _descriptor  # noqa: PLW0603 - one pipe a process is the point
    _descriptor = descriptor


def sign() -> None:
    """Say that this process lives. Never blocks, never fails."""
    if _descriptor is None:
        return
    try:
        os.write(_descriptor, b"%d\n" % os.getpid())
    except BlockingIOError:  # the reader is busy and has enough of our signs to read
        return
    except OSError:  # the supervisor is gone: nobody reads
        return


def _sign_for_ever() -> None:
    while True:
        sign()
        time.sleep(PERIOD_S)


def thread_start() -> None:
    """Sign from a thread of this process: it shows that the process is not stopped, not that its main thread goes on."""
    if _descriptor is not None:
        threading.Thread(target=_sign_for_ever, name="signs-of-life", daemon=True).start()
