"""The live socket: a page follows streams, gets numbered events, and a heartbeat with the numbers it should have seen.

Events only say what to refetch; the page asks for the figures itself, as its user. So nothing of another tenant's can
leak here, and a lost event is found by its number (invariant 9). Whether that user may still follow is asked again and
again: a sign-out, a new password, a second factor that must be and is none, or the end of a membership closes the socket
with the next heartbeat.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from typing import Any

import redis.asyncio
from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncJsonWebsocketConsumer
from django.conf import settings
from django.db import DatabaseError, InterfaceError
from django.utils import timezone

from portal.foundation.api.sockets import SIGNED_OUT, TOO_MANY, socket_give, socket_take
from portal.foundation.events import following
from portal.foundation.events.relay import group_name, number_key
from portal.foundation.events.shared import REPLACED
from portal.pages.dashboard.shell import live_rights
from portal.pages.dashboard.shell.live_rights import MOST_STREAMS
from portal.people.accounts.second import required_missing

log = logging.getLogger(__name__)

HEARTBEAT_S = 4
"""The rights are asked again with each."""
MOST_CHARS = 16 * 1024
"""The limit of one message."""
MOST_MESSAGES = 30
"""Most messages of one socket between two heartbeats; a page sends one."""


class LiveConsumer(AsyncJsonWebsocketConsumer):
    async def connect(self) -> None:
        self.streams: set[str] = set()
        self.redis = redis.asyncio.Redis.from_url(settings.REDIS_URL, socket_timeout=3, retry_on_error=REPLACED)
        self.heart: asyncio.Task[None] | None = None
        self.messages, self.is_counted = 0, False
        user = self.scope["user"]
        if not user.is_authenticated or await database_sync_to_async(required_missing)(user):
            await self.close(code=SIGNED_OUT)
            return
        self.is_counted = socket_take(self.scope["user"].pk)
        if not self.is_counted:
            await self.close(code=TOO_MANY)
            return
        await self.accept()
        self.heart = asyncio.create_task(self._beat())

    async def disconnect(self, code: int) -> None:
        self._give_back()
        if self.heart is not None and self.heart is not asyncio.current_task():
            self.heart.cancel()
        for stream in self.streams:
            with contextlib.suppress(redis.exceptions.RedisError, OSError):  # the socket is gone either way
                await self.channel_layer.group_discard(group_name(stream), self.channel_name)
        await self.redis.aclose()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None, **_: Any) -> None:
        """Treat text that is not JSON as an invalid message: the sender gets a sentence, and the socket stays open."""
        self.messages += 1
        if self.messages > MOST_MESSAGES:
            self._give_back()
            await self.close(code=TOO_MANY)
            return
        try:
            content = json.loads((text_data or "") if len(text_data or "") <= MOST_CHARS else "")
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
        streams = content["streams"]
        if len(streams) > MOST_STREAMS or len(self.streams.union(map(str, streams))) > MOST_STREAMS:
            detail = f"A socket follows at most {MOST_STREAMS} streams; nothing of this message was taken."
            await self.send_json({"type": "error", "code": "too_many", "detail": detail})
            return
        for stream in streams:
            if not await database_sync_to_async(live_rights.may_follow)(self.scope["user"], stream):
                await self.send_json({"type": "error", "code": "not_found", "stream": str(stream)[:64]})
                continue
            await self.channel_layer.group_add(group_name(stream), self.channel_name)
            self.streams.add(stream)
        await self._heartbeat()

    async def stream_event(self, message: dict[str, Any]) -> None:
        await self.send_json({**message, "type": "event"})

    async def _beat(self) -> None:
        me = asyncio.current_task()
        while me is not None and not me.cancelling():  # redis may tell a cancellation as a lost connection
            await asyncio.sleep(HEARTBEAT_S)
            self.messages = 0
            if not await self._is_still_allowed():
                self._give_back()
                await self.close(code=SIGNED_OUT)
                return
            try:
                await self._heartbeat()
            except (redis.exceptions.RedisError, OSError):
                # Without Redis nothing live arrives: no heartbeat is the truth, and the page says that it is stale.
                continue

    def _give_back(self) -> None:
        """Stop counting this socket, once."""
        if self.is_counted:
            self.is_counted = False
            socket_give(self.scope["user"].pk)

    async def _is_still_allowed(self) -> bool:
        try:
            return await live_rights.still_allowed(self.scope, list(self.streams))
        except (DatabaseError, InterfaceError) as error:
            log.warning("live: rights not checked, the database does not answer: %s", error)
            return True  # asked again at the next check; the streams hold no figures

    async def _heartbeat(self) -> None:
        streams = sorted(self.streams)
        values = await self.redis.mget([number_key(stream) for stream in streams]) if streams else []
        if counted := [stream for stream in streams if stream.startswith(("board:", "node:"))]:
            await self.redis.zadd(following.KEY, following.marks(counted))
        numbers = {stream: int(value or 0) for stream, value in zip(streams, values, strict=True)}
        await self.send_json({"type": "heartbeat", "numbers": numbers, "at": timezone.now().isoformat()})
