"""The live socket: a page follows streams, gets numbered events, and a heartbeat with the numbers it should have seen.

Events only say what to refetch; the page asks for the figures itself, as its user. So nothing of another tenant's can
leak here, and a lost event is found by its number (invariant 9).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Any

import redis.asyncio
from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncJsonWebsocketConsumer
from django.conf import settings
from django.utils import timezone

from portal.cluster.selectors import node_get
from portal.dashboard.board.feed import stream_of
from portal.dashboard.horizons import HORIZONS_H
from portal.errors import BerthError
from portal.events import following
from portal.events.relay import group_name, number_key
from portal.jobs.selectors import job_get
from portal.simulations.selectors import simulation_get

if TYPE_CHECKING:
    from collections.abc import Callable

    from portal.tenants.models import User

HEARTBEAT_S = 5
OPEN_STREAMS = {"cluster", *map(stream_of, HORIZONS_H)}
"""What every signed-in user may follow: it names no job."""
STREAMS_LIMIT = 20
SEEN_BY: dict[str, Callable[[User, str], object]] = {
    "job": lambda user, number: job_get(user=user, job_id=number),
    "node": lambda user, name: node_get(user=user, name=name),
    "simulation": lambda user, number: simulation_get(user=user, number=number),
}
"""Kind of stream -> what raises BerthError unless the user may see what it is of."""


class LiveConsumer(AsyncJsonWebsocketConsumer):
    async def connect(self) -> None:
        self.streams: set[str] = set()
        self.redis = redis.asyncio.Redis.from_url(settings.REDIS_URL, socket_timeout=3)
        self.heart: asyncio.Task[None] | None = None
        if not self.scope["user"].is_authenticated:
            await self.close(code=4401)
            return
        await self.accept()
        self.heart = asyncio.create_task(self._beat())

    async def disconnect(self, code: int) -> None:
        if self.heart is not None:
            self.heart.cancel()
        for stream in self.streams:
            with contextlib.suppress(redis.exceptions.RedisError, OSError):  # the socket is gone either way
                await self.channel_layer.group_discard(group_name(stream), self.channel_name)
        await self.redis.aclose()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None, **_: Any) -> None:
        """Take what is no JSON as an invalid message: the sender gets a sentence, and the socket lives on."""
        try:
            content = json.loads(text_data or "")
        except (ValueError, RecursionError):
            content = None
        await self.receive_json(content)

    async def receive_json(self, content: Any, **_: Any) -> None:
        if (
            not isinstance(content, dict)
            or content.get("type") != "follow"
            or not isinstance(content.get("streams"), list)
        ):
            await self.send_json(
                {"type": "error", "code": "invalid", "detail": 'Send {"type": "follow", "streams": []}.'}
            )
            return
        for stream in content["streams"][:STREAMS_LIMIT]:
            if not await self._may_follow(stream):
                await self.send_json({"type": "error", "code": "not_found", "stream": str(stream)[:64]})
                continue
            await self.channel_layer.group_add(group_name(stream), self.channel_name)
            self.streams.add(stream)
        await self._heartbeat()

    @database_sync_to_async
    def _may_follow(self, stream: Any) -> bool:
        if isinstance(stream, str) and stream in OPEN_STREAMS:
            return True
        kind, _, number = stream.partition(":") if isinstance(stream, str) else ("", "", "")
        if kind not in SEEN_BY:
            return False
        try:
            SEEN_BY[kind](self.scope["user"], number)
        except BerthError:
            return False
        return True

    async def stream_event(self, message: dict[str, Any]) -> None:
        await self.send_json({**message, "type": "event"})

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            try:
                await self._heartbeat()
            except (redis.exceptions.RedisError, OSError):
                # Without Redis nothing live arrives: no heartbeat is the truth, and the page says that it is stale.
                continue

    async def _heartbeat(self) -> None:
        streams = sorted(self.streams)
        values = await self.redis.mget([number_key(stream) for stream in streams]) if streams else []
        if counted := [stream for stream in streams if stream.startswith(("board:", "node:"))]:
            await self.redis.zadd(following.KEY, following.marks(counted))
        numbers = {stream: int(value or 0) for stream, value in zip(streams, values, strict=True)}
        await self.send_json({"type": "heartbeat", "numbers": numbers, "at": timezone.now().isoformat()})
