"""Bodies of requests: no more of one is taken than any view reads. Django itself would write all of it to the disk first.

All that come at once fill no disk either: each byte counts until its request is over.
"""

from __future__ import annotations

import json
from collections import Counter
from io import BytesIO
from typing import TYPE_CHECKING, Any

from channels.db import database_sync_to_async
from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.sessions.backends.db import SessionStore
from django.core.handlers.asgi import ASGIRequest

from portal.foundation.errors import BerthError
from portal.people.tenants.authentication import Unauthorized, token_find

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

MIB = 2**20
MOST_BYTES = 8 * MIB
"""A page's form with its files, an agent's message or a piece of an artefact is a quarter of it at most."""
LONG = {"/api/v1/simulations/traces": 257 * MIB, "/laboratory/traces/": 257 * MIB}
"""Paths that take larger bodies from signed-in people: a trace has at most `laboratory_trace_mib`, at most 256."""
OF_ONE_BYTES, IN_ALL_BYTES = 520 * MIB, 2048 * MIB
"""The most bytes of all bodies at once in a process: per address, and in all."""
ALWAYS_BYTES = MIB // 16
"""The bytes of a body that are taken even when the others are too many."""

_held: Counter[str] = Counter()
"""Bytes of the requests that are under way, by address. Only the event loop uses it."""


class Bounded:
    """An ASGI application that answers 413 where a body is longer, and reads no more of it."""

    def __init__(self, application: Callable[..., Awaitable[Any]]) -> None:
        self._application = application

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        client = str((scope.get("client") or ("",))[0])
        came, most = 0, MOST_BYTES

        async def receiving() -> Any:
            nonlocal came, most
            message = await receive()
            size = len(message.get("body", b""))
            came += size
            _held[client] += size
            if came > most < LONG.get(scope["path"], most):
                await database_sync_to_async(_signed_in_check)(scope)
                most = LONG[scope["path"]]
            if came > most:
                detail = (
                    f"The body is larger than {most // MIB} MiB; put large input on storage that the nodes can read."
                )
                raise RefusedError(BerthError("too_large", detail, status=413))
            if came > ALWAYS_BYTES and (_held[client] > OF_ONE_BYTES or _held.total() > IN_ALL_BYTES):
                detail = "Too much is being sent at the moment; try again in a minute."
                raise RefusedError(BerthError("busy", detail, status=503))
            return message

        try:
            await self._application(scope, receiving, send)
        except RefusedError as refused:
            await _refuse(scope, send, refused.error)
        finally:
            _held[client] -= came
            if not _held[client]:
                del _held[client]


class RefusedError(Exception):
    """The body is taken no further. `error`: the caller's answer."""

    def __init__(self, error: BerthError) -> None:
        super().__init__(error.detail)
        self.error = error


def _signed_in_check(scope: dict[str, Any]) -> None:
    """Refuse who has neither a token nor a session that counts."""
    request = ASGIRequest(scope, BytesIO())
    scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
    try:
        if scheme.lower() == "bearer":
            token_find(secret.strip())
            return
    except Unauthorized as error:
        raise RefusedError(error) from error
    key = request.COOKIES.get(settings.SESSION_COOKIE_NAME)
    request.session = SessionStore(key)
    if not key or not get_user(request).is_authenticated:
        detail = f"Sign in before you send more than {MOST_BYTES // MIB} MiB."
        raise RefusedError(Unauthorized("not_authenticated", detail))


async def _refuse(scope: dict[str, Any], send: Any, error: BerthError) -> None:
    """Answer as REST does to programs, in a sentence to people."""
    content, kind = error.detail, "text/plain; charset=utf-8"
    if scope["path"].startswith("/api/"):
        content, kind = json.dumps(error.envelope()), "application/json"
    told = {"content-type": kind, "connection": "close", **{name.lower(): text for name, text in error.headers.items()}}
    headers = [(name.encode(), text.encode()) for name, text in told.items()]
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": content.encode()})
