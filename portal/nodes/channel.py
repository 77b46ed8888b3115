"""The nodes' channels: one WebSocket a node, opened by its agent when somebody wants a terminal or a port of a job.

Each of these is a stream with a number. Channels live only in this process, and so do the sockets that use them. Nothing
here is kept: when the portal ends, its streams end, and the next one opens a new channel (docs/agent-protocol.md, *The channel*).
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Any

from channels.db import database_sync_to_async

from portal.nodes.authentication import bearer_secret, node_by_token
from portal.nodes.calls import CALLS
from workers.protocol.frames import ClosedError, FrameError, Kind, Stream, pack, pack_end, unpack

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)

UNUSED_S, CHECK_S = 60.0, 15.0
"""Seconds after which a channel without a stream is closed, and between checks of the node's token."""
OPEN_S = 15.0
"""How long an agent may take to open a stream."""
MOST_STREAMS = 256
"""The most streams of one node. A tenant has at most as many as are free: the first half, with another a third each."""
REFUSED, DONE, WRONG, REPLACED = 4401, 1000, 1002, 4409

_open: dict[int, Channel] = {}


class Channel:
    """One node's channel. `send` hands a frame to its socket, and waits while that is full."""

    def __init__(self, node_id: int, send: Callable[[bytes], Awaitable[None]]) -> None:
        self.node_id = node_id
        self.streams: dict[int, Stream] = {}
        self._tenants: dict[int, int] = {}
        self.replaced = asyncio.Event()
        self.used_at = asyncio.get_running_loop().time()
        self._send, self._number, self._sending = send, 0, asyncio.Lock()

    async def send(self, frame: bytes) -> None:
        async with self._sending:
            await self._send(frame)

    async def open(self, asked: dict[str, Any], *, tenant_id: int) -> Stream:
        """Open a stream for a tenant's job. Raises ClosedError with the node's reason, or because it is silent."""
        self._room_require(tenant_id)
        self._number += 1
        stream = self.streams[self._number] = Stream(self._number, self.send)
        self._tenants[self._number] = tenant_id
        try:
            await self.send(pack(Kind.OPEN, stream.number, json.dumps(asked).encode()))
            async with asyncio.timeout(OPEN_S):
                await stream.opened()
        except TimeoutError:
            await self.close(stream, "timeout", "The node did not answer in time.")
            raise ClosedError("The node did not answer in time.") from None
        except BaseException:
            await self.close(stream, "left", "Nobody waits for it any more.")
            raise
        return stream

    def _room_require(self, tenant_id: int) -> None:
        """Raise ClosedError where a tenant would leave too few for others."""
        its, free = list(self._tenants.values()).count(tenant_id), MOST_STREAMS - len(self.streams)
        if its >= free:
            has = f"Your tenant has {its} terminals and connections open on this node, and only {free} more are free there"
            raise ClosedError(f"{has}, which others may need. Close some." if its else f"{has}. Try again later.")

    def _forget(self, number: int) -> bool:
        self._tenants.pop(number, None)
        return self.streams.pop(number, None) is not None

    async def close(self, stream: Stream, code: str, detail: str) -> None:
        """End a stream, and tell the node."""
        was_open = stream.why is None
        stream.end(code, detail)
        if self._forget(stream.number) and was_open:
            await self.send(pack(Kind.CLOSE, stream.number, pack_end(code, detail)))
        self.used_at = asyncio.get_running_loop().time()

    def take(self, frame: bytes) -> None:
        """Take a frame of the node. Never waits. Raises FrameError."""
        kind, number, body = unpack(frame)
        if kind in {Kind.OPEN, Kind.SIZE}:
            raise FrameError(f"a node sends no {kind.name}")
        if (stream := self.streams.get(number)) is not None:
            stream.take(kind, body)
        if kind is Kind.CLOSE:
            self._forget(number)
            self.used_at = asyncio.get_running_loop().time()

    def end(self) -> None:
        for stream in self.streams.values():
            stream.end("away", "The connection to the node has ended.")
        self.streams.clear()
        self._tenants.clear()


async def channel_of(node_id: int, *, limit_s: float) -> Channel:
    """Return the node's channel, and have its agent open one where there is none. Raises ClosedError after `limit_s`."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + limit_s
    while (channel := _open.get(node_id)) is None:
        if loop.time() >= deadline:
            raise ClosedError("The node does not answer now. Its agent may be away, or older than this portal.")
        CALLS.call(node_id)
        await CALLS.answered(node_id, min(3.0, deadline - loop.time()))
    return channel


async def channel_application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Serve `/api/agent/v1/channel`, the WebSocket of an agent."""
    await receive()
    node_id = await _node_of(scope)
    if node_id is None:
        await send({"type": "websocket.close", "code": REFUSED})
        return
    await send({"type": "websocket.accept"})
    channel = Channel(node_id, lambda frame: send({"type": "websocket.send", "bytes": frame}))
    if (older := _open.get(node_id)) is not None:
        older.replaced.set()
    _open[node_id] = channel
    CALLS.answer(node_id)
    tasks = [
        asyncio.ensure_future(each)
        for each in (_hear(channel, receive), _watch(channel, scope), channel.replaced.wait())
    ]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        if _open.get(node_id) is channel:
            del _open[node_id]
        channel.end()
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    code = next((each for each in ended if isinstance(each, int) and not isinstance(each, bool)), REPLACED)
    if code:
        await send({"type": "websocket.close", "code": code})


async def _hear(channel: Channel, receive: Any) -> int:
    """Take frames until the agent is gone (0) or breaks the rules (WRONG)."""
    while (message := await receive())["type"] == "websocket.receive":
        try:
            channel.take(message.get("bytes") or b"")
        except FrameError as error:
            log.warning("channel of node %s: %s", channel.node_id, error)
            return WRONG
    return 0


async def _watch(channel: Channel, scope: dict[str, Any]) -> int:
    """Return when nobody has used the channel for a while, or the node's token holds no longer."""
    while True:
        await asyncio.sleep(CHECK_S)
        if not channel.streams and asyncio.get_running_loop().time() - channel.used_at >= UNUSED_S:
            return DONE
        if await _node_of(scope) != channel.node_id:
            return REFUSED


@database_sync_to_async
def _node_of(scope: dict[str, Any]) -> int | None:
    secret = bearer_secret(dict(scope["headers"]).get(b"authorization", b""))
    node = node_by_token(secret) if secret else None
    return None if node is None else node.pk
