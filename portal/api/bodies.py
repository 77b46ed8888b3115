"""Bodies of requests: no more of one is taken than any view reads. Django itself would write all of it to the disk first."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from portal.errors import BerthError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

MIB = 2**20
MOST_BYTES = 8 * MIB
"""A page's form with its files, an agent's message or a piece of an artefact is a quarter of it at most."""
LONG = {"/api/v1/simulations/traces": 257 * MIB, "/laboratory/traces/": 257 * MIB}
"""Paths that take more: a trace is as long as `laboratory_trace_mib` says, at most 256."""


class TooLongError(Exception):
    """More has come than is taken."""


class Bounded:
    """An ASGI application that answers 413 where a body is longer, and reads no more of it."""

    def __init__(self, application: Callable[..., Awaitable[Any]]) -> None:
        self._application = application

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        left = most = LONG.get(scope["path"], MOST_BYTES)

        async def receiving() -> Any:
            nonlocal left
            message = await receive()
            left -= len(message.get("body", b""))
            if left < 0:
                raise TooLongError
            return message

        try:
            await self._application(scope, receiving, send)
        except TooLongError:
            await _refuse(scope, send, most)


async def _refuse(scope: dict[str, Any], send: Any, most: int) -> None:
    """Answer as REST does to programs, in a sentence to people."""
    detail = f"The body is larger than {most // MIB} MiB; put large input on storage that the nodes can read."
    content, kind = detail, "text/plain; charset=utf-8"
    if scope["path"].startswith("/api/"):
        content, kind = json.dumps(BerthError("too_large", detail, status=413).envelope()), "application/json"
    headers = [(b"content-type", kind.encode()), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": 413, "headers": headers})
    await send({"type": "http.response.body", "body": content.encode()})
