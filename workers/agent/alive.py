"""The agent of a directory: the lock that lets only one use it, the note that names it, and its signs of life.

It writes its pid into a pipe every two seconds, so that its supervisor sees when it hangs. `./berth up` and `./berth node`
pass the pipe. An agent that was started by hand has no pipe and writes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import stat
import time
from typing import TYPE_CHECKING, Any

from workers.system.files import BrokenFileError, lock_take, read_record, write_json
from workers.system.procs import Identity

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

VARIABLE = "BERTH_ALIVE_DESCRIPTOR"
PERIOD_S = 2.0


def descriptor_take() -> int | None:
    """Return the pipe if there is one. Remove its variable: in a child the number would mean another file."""
    raw = os.environ.pop(VARIABLE, "")
    if not raw.isdecimal():
        return None
    try:
        if not stat.S_ISFIFO(os.fstat(int(raw)).st_mode):
            return None
        os.set_inheritable(int(raw), False)
    except OSError:
        return None
    return int(raw)


async def sign_for_ever(descriptor: int) -> None:
    """Write signs until nobody reads them. The event loop writes them, so a blocked loop writes none."""
    while True:
        try:
            os.write(descriptor, b"%d\n" % os.getpid())
        except BlockingIOError:  # the pipe is full: the reader has enough signs
            pass
        except OSError:
            return
        await asyncio.sleep(PERIOD_S)


class HeldError(Exception):
    """Another agent serves this directory."""


@contextlib.contextmanager
def hold_agent(directory: Path) -> Iterator[None]:
    """Hold the directory's lock. Raises HeldError when another agent holds it."""
    descriptor = lock_take(directory / "agent.lock")
    if descriptor is None:
        holder = _holder(directory) or {}
        raise HeldError(f"an agent (pid {holder.get('pid')}) already serves {directory}")
    try:
        me = Identity.of(os.getpid())
        if me is not None:
            with contextlib.suppress(OSError):  # a full disk; the lock counts, this file only names its holder
                write_json(directory / "agent.json", me.to_json())
        yield
    finally:
        os.close(descriptor)


def _holder(directory: Path) -> dict[str, Any] | None:
    """Return the agent that wrote its name last; None when none did, or when the file is broken."""
    try:
        return read_record(directory / "agent.json", pid=int, start_ticks=int, boot_id=str)
    except BrokenFileError:
        return None


def agent_end(directory: Path, *, patience_s: float = 10.0) -> None:
    """End the directory's agent if one runs. Its jobs go on."""
    value = _holder(directory)
    agent = Identity.from_json(value) if value else None
    if agent is None or not agent.signal(signal.SIGTERM):
        return
    end = time.monotonic() + patience_s
    while agent.is_alive():
        if time.monotonic() > end:
            agent.signal(signal.SIGKILL)
        time.sleep(0.02)
