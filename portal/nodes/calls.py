"""Calls for nodes' channels: an open long poll hears of one at once, and the next poll hears of a missed one."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict

Waiting = dict[int, set["asyncio.Future[None]"]]


class Calls:
    """The calls in one process of the portal."""

    def __init__(self) -> None:
        self._called: set[int] = set()
        self._polls: Waiting = defaultdict(set)
        self._callers: Waiting = defaultdict(set)

    def call(self, node_id: int) -> None:
        """Let the node's agent hear that its channel is wanted."""
        self._called.add(node_id)
        _wake(self._polls, node_id)

    def take(self, node_id: int) -> bool:
        """Say, once for each call, whether the node is called."""
        called = node_id in self._called
        self._called.discard(node_id)
        return called

    async def called(self, node_id: int) -> None:
        """Return when the node is called; it may be called already."""
        if node_id not in self._called:
            await _wait(self._polls, node_id)

    def answer(self, node_id: int) -> None:
        """Tell who called that the channel is open."""
        self._called.discard(node_id)
        _wake(self._callers, node_id)

    async def answered(self, node_id: int, limit_s: float) -> None:
        """Return when the channel has been opened, or after the limit."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await _wait(self._callers, node_id)


def _wake(waiting: Waiting, node_id: int) -> None:
    for each in waiting.get(node_id, ()):
        if not each.done():
            each.set_result(None)


async def _wait(waiting: Waiting, node_id: int) -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    waiting[node_id].add(future)
    try:
        await future
    finally:
        waiting[node_id].discard(future)
        if not waiting[node_id]:
            del waiting[node_id]


CALLS = Calls()
