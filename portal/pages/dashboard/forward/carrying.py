"""The connections of one forwarded port: each is a stream to the program, and one to the node, carried both ways."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from portal.nodes.channel import channel_of
from portal.pages.dashboard.terminal.session import CALL_S, Ended, first_done
from portal.pages.dashboard.terminal.traffic import TRAFFIC
from workers.protocol.frames import ClosedError, FrameError, Kind, Stream, pack, pack_end, unpack

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from portal.pages.dashboard.terminal.rights import Place

MOST_STREAMS = 32
"""Connections of one forwarded port. A browser opens six, and one more for each running notebook."""
TOO_MANY = f"{MOST_STREAMS} connections to this port are open, which is the most. Close one."


class Connections:
    """`send` hands a frame to the program's socket, and waits while that is full. `asked`: the request to the node."""

    def __init__(self, place: Place, asked: dict[str, Any], send: Callable[[bytes], Awaitable[None]]) -> None:
        self._place, self._asked, self._send = place, asked, send
        self._streams: dict[int, Stream] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._moved = 0

    @property
    def moved(self) -> int:
        """Bytes that went through all of them so far, both ways."""
        return self._moved + sum(stream.moved for stream in self._streams.values())

    async def take(self, frame: bytes) -> None:
        """Take a frame of the program. Raises FrameError where it breaks the rules of the channel."""
        kind, number, body = unpack(frame)
        if kind in {Kind.OPENED, Kind.SIZE}:
            raise FrameError(f"a program sends no {kind.name}")
        stream = self._streams.get(number)
        if kind is not Kind.OPEN:
            if stream is not None:  # else it has ended here, and the other end does not know yet
                stream.take(kind, body)
            return
        if stream is not None:
            raise FrameError(f"stream {number} is open already")
        if len(self._streams) >= MOST_STREAMS:
            await self._send(pack(Kind.CLOSE, number, pack_end("too_many", TOO_MANY)))
            return
        stream = self._streams[number] = Stream(number, self._send)
        task = asyncio.ensure_future(self._serve(stream))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, near: Stream) -> None:
        try:
            code, detail = await self._carried(near)
        finally:
            self._moved += near.moved
            del self._streams[near.number]
        near.end(code, detail)
        try:
            await self._send(pack(Kind.CLOSE, near.number, pack_end(code, detail)))
        except OSError:  # the program is gone
            return

    async def _carried(self, near: Stream) -> Ended:
        try:
            channel = await channel_of(self._place.node_id, limit_s=CALL_S)
            far = await channel.open(self._asked, tenant_id=self._place.job.tenant_id)
        except ClosedError as error:
            return "away", str(error)
        try:
            await self._send(pack(Kind.OPENED, near.number))
            tenant_id = self._place.job.tenant_id
            await first_done(_there(near, far, tenant_id), _back(far, near, tenant_id))
        except OSError:  # the program is gone
            return "left", ""
        finally:
            await channel.close(far, "left", "The connection was closed.")
        return far.why or ("left", "")


async def _there(near: Stream, far: Stream, tenant_id: int) -> None:
    try:
        while data := await near.read():
            await TRAFFIC.move(tenant_id, len(data))
            await far.write(data)
    except ClosedError:
        await asyncio.Event().wait()  # `_back` carries what the job still said, and tells the end


async def _back(far: Stream, near: Stream, tenant_id: int) -> None:
    try:
        while data := await far.read():
            await TRAFFIC.move(tenant_id, len(data))
            await near.write(data)
    except (ClosedError, OSError):  # nobody reads it
        return
