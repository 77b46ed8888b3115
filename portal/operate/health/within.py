"""`/healthz` answers in time also while the database does not."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

LIMIT_S = 5.0
UNANSWERED = {
    "state": "failing",
    "database": "unreachable",
    "problems": [f"database: no answer within {LIMIT_S:g} s, or the portal's machine is too busy to ask it"],
}


class Within:
    """An ASGI application around that of `/healthz`: it answers by itself when that takes longer than the limit."""

    def __init__(self, application: Callable[..., Awaitable[Any]], *, limit_s: float = LIMIT_S) -> None:
        self._application, self._limit_s = application, limit_s
        self._late: set[asyncio.Future[Any]] = set()

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        answers, began = True, False

        async def sending(message: dict[str, Any]) -> None:
            nonlocal began
            if answers:
                began = True
                await send(message)

        task = asyncio.ensure_future(self._application(scope, receive, sending))
        done, _ = await asyncio.wait({task}, timeout=self._limit_s)
        if done or began:
            await task
            return
        answers = False
        self._late.add(task)  # it ends when the database answers, or is given up
        task.add_done_callback(self._over)
        await send({"type": "http.response.start", "status": 503, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": json.dumps(UNANSWERED).encode()})

    def _over(self, task: asyncio.Future[Any]) -> None:
        self._late.discard(task)
        if not task.cancelled():
            task.exception()  # nobody waits for it any more
