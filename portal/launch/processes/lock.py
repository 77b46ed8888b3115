"""The lock that lets one supervisor use a data directory: an flock, which the kernel releases when its holder dies."""

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from portal.foundation.errors import LaunchError
from portal.foundation.layout import Layout, read_json
from portal.launch.processes.identity import Identity, identity_of, is_alive


class SupervisorLock:
    """Held from before the first child's start until after the last child's end. Children do not inherit it (PEP 446)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: IO[str] | None = None

    def acquire(self) -> bool:
        """Take the lock, and write into it who holds it. False when another process holds it."""
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        file = os.fdopen(descriptor, "r+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return False
        me = identity_of(os.getpid())
        file.truncate(0)
        file.write("" if me is None else f"{me.pid} {me.started} {me.boot_id}\n")
        file.flush()
        self._file = file
        return True

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def lock_or_refuse(layout: Layout) -> SupervisorLock:
    """Take the lock. Raises LaunchError, with the URL of the Berth that holds it."""
    lock = SupervisorLock(layout.lock)
    if lock.acquire():
        return lock
    state = read_json(layout.state) or {}
    url = state.get("url", "(it is still starting)")
    raise LaunchError(
        f"Berth already runs on {layout.root}: {url}",
        "Open that address in a browser, or stop Berth with `./berth down`.",
    )


def supervisor_state(layout: Layout) -> dict[str, Any] | None:
    """Return the running supervisor's words about itself; None when none runs."""
    state = read_json(layout.state)
    if state is None or not is_alive(Identity.from_dict(state["supervisor"])):
        return None
    return dict(state)
