"""One session of a terminal: the stream to the node is opened, carried between it and a socket, and ended with a reason."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any

from channels.db import database_sync_to_async
from django.db import DatabaseError, InterfaceError

from portal.foundation.api.sockets import SIGNED_OUT
from portal.foundation.environment import env
from portal.nodes.channel import channel_of
from portal.pages.dashboard.terminal.rights import PLACES, begun_record, ended_record
from portal.pages.dashboard.terminal.traffic import TRAFFIC
from portal.work.jobs.idle.using import idle_used
from workers.protocol.frames import MOST_SIZE, ClosedError

if TYPE_CHECKING:
    from portal.nodes.channel import Channel
    from portal.pages.dashboard.terminal.callers import Caller
    from portal.pages.dashboard.terminal.rights import Place
    from workers.protocol.frames import Stream

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


CALL_S = 30.0
"""How long it waits for the node to open its channel."""
STUCK_S = 60.0
"""Seconds that input waits for a job that does not read it."""
MOST_ALIVE = 200
"""Bytes between two checks that are no use of an ssh: its `ServerAliveInterval` of two seconds or more moves at most these."""


async def terminal_carry(caller: Caller, receive: Any, send: Any, place: Place, asked: dict[str, Any]) -> None:
    """Open a terminal, carry it, and send its end to the other side. `asked`: the request to the node beside the place."""
    if (why := PLACES.take(caller.user.pk, place)) is not None:
        await ended_tell(send, "too_many", why)
        return
    try:
        await _opened(caller, receive, send, place, asked)
    finally:
        PLACES.give(caller.user.pk, place)


async def ended_tell(send: Any, code: str, detail: str, *, exit_code: int | None = None, close: int = 1000) -> None:
    with contextlib.suppress(OSError):  # the other end is gone meanwhile
        await _tell(send, state="ended", code=code, detail=detail, exit_code=exit_code)
        await send({"type": "websocket.close", "code": close})


def size_of(said: Any) -> tuple[int, int] | None:
    """Return columns and rows; None where there are none, or such as no terminal has."""
    if not isinstance(said, dict):
        return None
    columns, rows = said.get("columns"), said.get("rows")
    if type(columns) is not int or type(rows) is not int:
        return None
    return (columns, rows) if 0 < columns <= MOST_SIZE and 0 < rows <= MOST_SIZE else None


def json_of(text: str) -> Any:
    """Return the value of a text message; None for text that is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


async def _opened(caller: Caller, receive: Any, send: Any, place: Place, asked: dict[str, Any]) -> None:
    await _tell(send, state="opening")
    code, detail, exit_code = "left", "", None
    try:
        channel = await channel_of(place.node_id, limit_s=CALL_S)
        stream = await channel.open(place.asked | asked, tenant_id=place.job.tenant_id)
    except ClosedError as error:
        code, detail = "away", str(error)
    else:
        code, detail = await _session(caller, receive, send, place, channel, stream, str(asked.get("kind", "terminal")))
        exit_code = stream.exit_code
    if code != "left":
        close = SIGNED_OUT if code == "right_ended" else 1000
        await ended_tell(send, code, detail, exit_code=exit_code, close=close)


async def _session(
    caller: Caller, receive: Any, send: Any, place: Place, channel: Channel, stream: Stream, kind: str
) -> Ended:
    loop = asyncio.get_running_loop()
    begun, about = loop.time(), {"user": caller.user, "place": place, "action": f"job.{kind}"}
    try:
        await database_sync_to_async(begun_record)(**about)
        await _tell(send, state="open")
        return await _carried(caller, receive, send, place, stream, _WATCHED[kind])
    except (DatabaseError, InterfaceError):
        return "away", "The portal's database does not answer, so the session cannot be recorded."
    finally:
        await channel.close(stream, "left", "The terminal was closed.")
        with contextlib.suppress(DatabaseError, InterfaceError):  # the trail says that it began
            await database_sync_to_async(ended_record)(**about, seconds=loop.time() - begun)


async def _carried(
    caller: Caller,
    receive: Any,
    send: Any,
    place: Place,
    stream: Stream,
    watch: Callable[..., Coroutine[Any, Any, Ended]],
) -> Ended:
    """Carry both ways until one end closes it, the person may no longer, or nothing has moved for long."""
    try:
        tenant_id = place.job.tenant_id
        ways = _shown(send, stream, tenant_id), _typed(receive, stream, tenant_id), watch(caller, place, stream)
        done = await first_done(*ways)
        return done.result()
    except OSError:  # the other end is gone
        return "left", ""


async def first_done(*ways: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """Run them until one is done, and return that one; the others are cancelled."""
    tasks = [asyncio.ensure_future(each) for each in ways]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return next(iter(done))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _shown(send: Any, stream: Stream, tenant_id: int) -> Ended:
    while data := await stream.read():
        await TRAFFIC.move(tenant_id, len(data))
        await send({"type": "websocket.send", "bytes": data})
    return stream.why or ("ended", "The shell has ended.")


async def _typed(receive: Any, stream: Stream, tenant_id: int) -> Ended:
    while (message := await receive())["type"] == "websocket.receive":
        await TRAFFIC.move(tenant_id, len(message.get("bytes") or b""))
        try:
            async with asyncio.timeout(STUCK_S):
                if message.get("bytes"):
                    await stream.write(message["bytes"])
                elif size := size_of(json_of(message.get("text") or "")):
                    await stream.size(*size)
        except TimeoutError:
            return "stuck", "The job has not read for a minute what was typed."
        except ClosedError:
            await asyncio.Event().wait()  # `_shown` shows the rest, and tells the end
    return "left", ""


async def _watch(caller: Caller, place: Place, stream: Stream) -> Ended:
    idle, out = "Nobody used this terminal", "You may no longer act on this job, or you have signed out."
    return await session_watch(caller, place, lambda: stream.moved, by="terminal", idle=idle, out=out)


async def _ssh_watch(caller: Caller, place: Place, stream: Stream) -> Ended:
    """Watch it as a terminal. Bytes with which an ssh keeps its connection alive are no use: they come too thin."""
    seen, used = 0, 0

    def moved() -> int:
        nonlocal seen, used
        used, seen = used + (stream.moved - seen > MOST_ALIVE), stream.moved
        return used

    idle, out = "Nobody used this connection", "You may no longer act on this job, or the token has ended."
    return await session_watch(caller, place, moved, by="ssh", idle=idle, out=out)


_WATCHED: dict[str, Callable[..., Coroutine[Any, Any, Ended]]] = {"terminal": _watch, "ssh": _ssh_watch}


async def _tell(send: Any, **said: Any) -> None:
    await send({"type": "websocket.send", "text": json.dumps(said)})
