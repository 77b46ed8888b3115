"""The ends of a session that nobody closes: nothing moves for long, or the person's right ends."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from channels.db import database_sync_to_async
from django.db import DatabaseError, InterfaceError

from portal.foundation.environment import env
from portal.work.jobs.idle.using import idle_used

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from portal.pages.dashboard.terminal.callers import Caller
    from portal.pages.dashboard.terminal.rights import Place

CHECK_S = 4.0
"""Seconds between two checks of the person's right."""

Ended = tuple[str, str]


async def session_watch(
    caller: Caller,
    place: Place,
    moved: Callable[[], int],
    *,
    by: str,
    idle: str,
    out: str,
    also: Callable[[], Awaitable[Ended | None]] | None = None,
) -> Ended:
    """Return why the session ends, when it does. Each movement is noted as use of the job, with its kind in `by`.

    `moved`: how many bytes went through so far. `idle` and `out` are the sentences of the two ends; `also` tells another.
    """
    loop = asyncio.get_running_loop()
    before, moved_at = moved(), loop.time()
    idle_s = env("BERTH_TERMINAL_IDLE_S")
    while True:
        await asyncio.sleep(CHECK_S)
        if (present := moved()) != before:
            before, moved_at = present, loop.time()
            if place.job.idle_timeout_s is not None:
                with contextlib.suppress(DatabaseError, InterfaceError):  # noted again when more moves
                    await database_sync_to_async(idle_used)(attempt_id=place.attempt_id, by=by)
        if loop.time() - moved_at >= idle_s:
            return "idle", f"{idle} for {round(idle_s / 60)} minutes."
        if not await caller.may_still():
            return "right_ended", out
        if also is not None and (end := await also()) is not None:
            return end
