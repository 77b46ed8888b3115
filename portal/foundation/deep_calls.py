"""Room for deep calls, without asking the system for memory at each of them.

CPython (3.11 on) keeps the frames of a thread's calls in pieces of 16 KiB, some eighty calls each. A call that no longer fits
maps a new piece into memory, and its return gives that back. Where a loop happens to stand at the end of a piece each
of its calls does both: a page with fifty rows did so 3 500 times, half of its processor time. So requests and long work
run inside one call that asks for a large piece, in whose rest hundreds of deeper calls find room.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

ROOM_WORDS = 36_000
"""The room that `roomy` asks for, in words of 8 bytes. A piece is the next power of two, 512 KiB; its rest is the room."""


def _call(call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    return call(*args, **kwargs)


def roomy(call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Return `call(*args, **kwargs)`; some 230 KiB of frames fit into what it asked for. Memory is touched as it is used."""
    return _in_room(call, *args, **kwargs)


_in_room = FunctionType(_call.__code__.replace(co_stacksize=ROOM_WORDS), {})


class RoomyThread(ThreadPoolExecutor):
    """One thread, whose work has room for deep calls."""

    def __init__(self, name: str) -> None:
        super().__init__(1, name)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return super().submit(_in_room, fn, *args, **kwargs)
