"""Does work on files outside the event loop, because a disk, a network file system or a job may block a call for ever."""

from __future__ import annotations

import asyncio
import queue
import threading
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_Value = TypeVar("_Value")

LIMIT_S = 10.0
"""A healthy disk never takes this long."""
MOST_THREADS = 32
OPEN_AGAIN = 3
"""Tries after a PermissionError."""


class SlowFilesError(OSError):
    """No answer within the limit; the call may still wait. Like any OSError it ends one step, not the agent."""


class FileWork:
    """Threads that are made when needed. They end with the process, even while they wait.

    A call that does not return occupies its thread. Until it returns, no further call with the same `about` is made, so
    one part with a dead file system occupies one thread only.
    """

    def __init__(
        self, *, on_slow: Callable[[str], None] = lambda _: None, on_closed: Callable[[], None] = lambda: None
    ) -> None:
        self._tasks: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._threads = self._idle = 0
        self._stuck: set[str] = set()
        self.on_slow, self.on_closed = on_slow, on_closed
        self.on_answered: Callable[[str], None] = lambda _: None
        """Called when what was slow has come to its end."""

    async def run(self, about: str, work: Callable[..., _Value], *args: Any, limit_s: float | None = LIMIT_S) -> _Value:
        """Return or raise what `work(*args)` does. Raises SlowFilesError after `limit_s`; None: wait as long as it takes."""
        if about in self._stuck and limit_s is not None:
            raise SlowFilesError(f"{about}: an earlier call still waits")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[_Value] = loop.create_future()

        def act() -> None:
            value, error = None, None
            try:
                value = self._try(work, args)
            except BaseException as raised:  # noqa: BLE001 - raised again where it is awaited
                error = raised
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._settle, about, answer, value, error)

        self._give(act)
        # Not wait_for: in Python 3.11 it swallows a cancellation that comes together with the answer.
        await asyncio.wait([answer], timeout=limit_s)
        if answer.done():
            return answer.result()
        self._stuck.add(about)
        self.on_slow(about)
        raise SlowFilesError(f"{about}: no answer within {limit_s:g} s")

    def _try(self, work: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Do the work. After a PermissionError have `on_closed` set the modes right, and try again."""
        for _ in range(OPEN_AGAIN):
            try:
                return work(*args)
            except PermissionError:
                self.on_closed()
        return work(*args)

    def _settle(self, about: str, answer: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
        if about in self._stuck:
            self._stuck.discard(about)
            self.on_answered(about)
        self._idle += 1
        if answer.done():
            return
        if error is None:
            answer.set_result(value)
        else:
            answer.set_exception(error)
            answer.exception()  # marks it as seen: perhaps nobody waits any more

    def _give(self, act: Callable[[], None]) -> None:
        self._tasks.put(act)
        if self._idle > 0:
            self._idle -= 1
        elif self._threads < MOST_THREADS:
            self._threads += 1
            threading.Thread(target=self._work, daemon=True, name="files").start()

    def _work(self) -> None:
        while True:
            self._tasks.get()()
