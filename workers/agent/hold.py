"""The lock that lets only one agent use a directory, and the note that says which one it is."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import TYPE_CHECKING, Any

from workers.system.files import BrokenFileError, read_record, write_json
from workers.system.locks import lock_take
from workers.system.procs import Identity

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


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
