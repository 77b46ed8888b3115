"""Callers of a terminal: a signed-in browser, or a program with a token. Each knows its rights, now and later."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from channels.db import database_sync_to_async
from django.db import DatabaseError, InterfaceError

from portal.foundation.api.sockets import SIGNED_OUT, TOO_MANY, socket_give, socket_take
from portal.foundation.errors import BerthError
from portal.pages.dashboard.shell.live_rights import still_allowed
from portal.pages.dashboard.terminal.rights import job_for, place_of, rank_of
from portal.people.tenants.authentication import scope_check, token_again, token_find, token_touch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from portal.pages.dashboard.terminal.rights import Place
    from portal.people.tenants.models import ApiToken, User

SCOPE = "jobs:write"
ASKED_S = 15.0
"""A program must send its request within this time."""
AWAY = "The portal's database does not answer."


@dataclass(frozen=True, slots=True)
class Caller:
    """`token`: None for a browser, whose session is in `scope`."""

    scope: dict[str, Any]
    user: User
    token: ApiToken | None = None

    @property
    def number(self) -> str:
        return str(self.scope["url_route"]["kwargs"]["number"])

    def place(self) -> Place:
        """Return where the part of the job runs that the address names. Raises BerthError."""
        query = parse_qs(self.scope["query_string"].decode("latin-1"))
        rank = rank_of(query.get("rank", ["0"])[0])
        tenant = self.token.tenant if self.token else None
        return place_of(user=self.user, number=self.number, rank=rank, tenant=tenant)

    async def may_still(self) -> bool:
        try:
            if self.token is None and not await still_allowed(self.scope, []):
                return False
            await database_sync_to_async(self._asked)()
        except BerthError:
            return False
        except (DatabaseError, InterfaceError):
            return False  # a right that cannot be asked for is none: this door leads into a job
        return True

    def _asked(self) -> None:
        if self.token is not None:
            token = token_again(self.token)
            scope_check(user=token.user, token=token, scope=SCOPE)
        job_for(user=self.user, number=self.number, tenant=self.token.tenant if self.token else None)


def caller_by_token(scope: dict[str, Any], sent: bytes) -> Caller:
    """Return whose token the header Authorization holds. Raises BerthError."""
    scheme, _, secret = sent.decode("latin-1").partition(" ")
    token = token_find(secret.strip() if scheme.lower() == "bearer" else "")
    scope_check(user=token.user, token=token, scope=SCOPE)
    token_touch(token)
    return Caller(scope, token.user, token)


async def program_serve(
    scope: dict[str, Any], receive: Any, send: Any, serve: Callable[[Caller, Any, Any], Awaitable[None]]
) -> None:
    """Take a program by its token, within the limit of its person's open sockets; a caller without a token is turned away."""
    await receive()
    try:
        caller = await database_sync_to_async(caller_by_token)(scope, dict(scope["headers"]).get(b"authorization", b""))
    except (BerthError, DatabaseError, InterfaceError):
        await send({"type": "websocket.close", "code": SIGNED_OUT})
        return
    if not socket_take(caller.user.pk):
        await send({"type": "websocket.close", "code": TOO_MANY})
        return
    try:
        await send({"type": "websocket.accept"})
        await serve(caller, receive, send)
    finally:
        socket_give(caller.user.pk)
