"""`/ws/jobs/{number}/logs`: an attempt's output over a WebSocket as it comes, by REST's parameters and in REST's pieces.

Each message is what `GET /api/v1/jobs/{number}/logs` answers, without `available`. An empty one says that the connection
lives. After a break a reader goes on with `attempt` and `cursor=next` of the last whole message. The socket wants a bearer token
and heeds no cookie, so no foreign page can open it. A fault is refused before it opens: REST says which it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import redis
from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.db import DatabaseError, InterfaceError
from django.http import QueryDict

from portal.foundation.api.base import Query
from portal.foundation.api.sockets import SIGNED_OUT, TOO_MANY, socket_give, socket_take
from portal.foundation.errors import BerthError
from portal.foundation.events.relay import group_name
from portal.people.tenants.authentication import scope_check, token_find
from portal.work.jobs.api.logs import KNOWN, Asked, piece_next, reading_of
from portal.work.jobs.listing import job_find

if TYPE_CHECKING:
    from portal.people.tenants.models import User
    from portal.work.jobs.models import Job

LOOK_S = 2.0
"""The time between two looks without a nudge, and between two checks of the token's right."""
BEAT_S = 8.0
"""A reader that hears nothing for some of these may take the connection for broken."""
SOONEST_S, MUCH = 0.25, 64 * 1024
"""Small pieces are gathered for this time; one of this many characters is followed by the next at once."""
REFUSED, AWAY = 4400, 1011


class LogConsumer(AsyncWebsocketConsumer):
    async def connect(self) -> None:
        self.task: asyncio.Task[None] | None = None
        self.user_id: int | None = None
        self.grown = asyncio.Event()
        self.group = ""
        try:
            user, asked = await database_sync_to_async(_asked)(self.scope)
        except (BerthError, DatabaseError, InterfaceError):
            await self.close(code=REFUSED)
            return
        if not socket_take(user.pk):
            await self.close(code=TOO_MANY)
            return
        self.user_id = user.pk
        await self.accept()
        self.group = group_name(f"job:{asked.job.pk}")
        with contextlib.suppress(redis.exceptions.RedisError, OSError):  # without Redis it looks every LOOK_S
            await self.channel_layer.group_add(self.group, self.channel_name)
        self.task = asyncio.create_task(self._tell(asked))

    async def disconnect(self, code: int) -> None:
        if self.task is not None and self.task is not asyncio.current_task():
            self.task.cancel()
        self._give_back()
        if self.group:
            with contextlib.suppress(redis.exceptions.RedisError, OSError):
                await self.channel_layer.group_discard(self.group, self.channel_name)

    def _give_back(self) -> None:
        """Stop counting this socket, once."""
        if self.user_id is not None:
            socket_give(self.user_id)
            self.user_id = None

    async def stream_event(self, _message: dict[str, Any]) -> None:
        """Look at once: something of the job changed."""
        self.grown.set()

    async def _tell(self, asked: Asked) -> None:
        try:
            code = await self._pieces(asked)
        except BerthError:
            code = SIGNED_OUT
        except (DatabaseError, InterfaceError):
            code = AWAY
        except OSError:  # the reader is gone, and `disconnect` follows
            return
        self._give_back()
        await self.close(code=code)

    async def _pieces(self, asked: Asked) -> int:
        """Send pieces until the attempt's last one. Raises BerthError where the right to them has ended."""
        loop = asyncio.get_running_loop()
        checked_s = told_s = loop.time()
        while True:
            self.grown.clear()
            if loop.time() - checked_s >= LOOK_S:
                checked_s = loop.time()
                await database_sync_to_async(_caller)(self.scope)
            piece, is_new, asked = await database_sync_to_async(piece_next)(asked)
            if is_new or piece["complete"] or loop.time() - told_s >= BEAT_S:
                told_s = loop.time()
                await self.send(text_data=json.dumps(piece))
            if piece["complete"]:
                return 1000
            if not is_new:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.grown.wait(), LOOK_S)
            if len(piece["text"]) < MUCH:
                await asyncio.sleep(SOONEST_S)


def _caller(scope: dict[str, Any]) -> tuple[User, Job]:
    """Return whose token it is, and the job. Raises BerthError where it may not read that job's output."""
    sent = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1")
    scheme, _, secret = sent.partition(" ")
    token = token_find(secret.strip() if scheme.lower() == "bearer" else "")
    scope_check(user=token.user, token=token, scope="jobs:read")
    return token.user, job_find(user=token.user, number=scope["url_route"]["kwargs"]["number"], tenant=token.tenant)


def _asked(scope: dict[str, Any]) -> tuple[User, Asked]:
    user, job = _caller(scope)
    query = Query(SimpleNamespace(query_params=QueryDict(scope["query_string"])), known=KNOWN)
    asked = Asked.of(query, job)
    reading_of(asked)  # refuses a wrong question now
    return user, asked
