"""`/ws/jobs/{number}/terminal`: a browser's socket, carried to a shell in the job by its node's channel.

Binary messages are what is typed and shown. Text messages are JSON: the page sends `{"columns", "rows"}`; it gets
`{"state": "opening" | "open"}`, and at the end `{"state": "ended", "code", "detail"}`. Only a page of this very origin may
open it: whoever has the cookie could otherwise be made to type by a foreign page.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from channels.db import database_sync_to_async
from django.conf import settings
from django.db import DatabaseError, InterfaceError

from portal.accounts.required import required_missing
from portal.agents.channel import channel_of
from portal.agents.frames import MOST_SIZE, ClosedError
from portal.api.sockets import SIGNED_OUT, TOO_MANY, socket_give, socket_take
from portal.dashboard.shell.live_rights import still_allowed
from portal.dashboard.terminal.rights import Place, begun_record, ended_record, job_for, place_of, rank_of
from portal.errors import BerthError

if TYPE_CHECKING:
    from portal.agents.channel import Channel
    from portal.agents.frames import Stream
    from portal.tenants.models import User

CALL_S = 30.0
"""How long it waits for the node to open its channel."""
CHECK_S = 4.0
"""So often it asks whether the person may still."""
IDLE_S = 3600.0
"""A terminal in which nothing moves for so long is closed."""
STUCK_S = 60.0
"""What is typed waits so long for a job that does not read it."""
REFUSED = 4400

Ended = tuple[str, str]


async def terminal_application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    await receive()
    user = scope["user"]
    if not user.is_authenticated or not same_origin(scope) or await database_sync_to_async(required_missing)(user):
        await send({"type": "websocket.close", "code": SIGNED_OUT})
        return
    try:
        place = await database_sync_to_async(_place)(scope, user)
    except (BerthError, DatabaseError, InterfaceError):
        await send({"type": "websocket.close", "code": REFUSED})
        return
    if not socket_take(user.pk):
        await send({"type": "websocket.close", "code": TOO_MANY})
        return
    try:
        await send({"type": "websocket.accept"})
        await _terminal(scope, receive, send, place)
    finally:
        socket_give(user.pk)


def same_origin(scope: dict[str, Any]) -> bool:
    """Say whether the page that opens the socket is one of this portal, its port included."""
    headers = dict(scope["headers"])
    origin = urlsplit(headers.get(b"origin", b"").decode("latin-1")).netloc
    own = {headers.get(b"host", b"").decode("latin-1"), urlsplit(settings.BASE_URL).netloc}
    return bool(origin) and origin in own


def _place(scope: dict[str, Any], user: User) -> Place:
    query = parse_qs(scope["query_string"].decode("latin-1"))
    number = scope["url_route"]["kwargs"]["number"]
    return place_of(user=user, number=number, rank=rank_of(query.get("rank", ["0"])[0]))


async def _terminal(scope: dict[str, Any], receive: Any, send: Any, place: Place) -> None:
    """Open the stream, carry it, and tell the page how it ended."""
    await _tell(send, state="opening")
    code, detail = "left", ""
    try:
        channel = await channel_of(place.node_id, limit_s=CALL_S)
        stream = await channel.open(place.asked)
    except ClosedError as error:
        code, detail = "away", str(error)
    else:
        code, detail = await _session(scope, receive, send, place, channel, stream)
    if code != "left":
        with contextlib.suppress(OSError):  # the page is gone meanwhile
            await _tell(send, state="ended", code=code, detail=detail)
            await send({"type": "websocket.close", "code": SIGNED_OUT if code == "right_ended" else 1000})


async def _session(
    scope: dict[str, Any], receive: Any, send: Any, place: Place, channel: Channel, stream: Stream
) -> Ended:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    try:
        await database_sync_to_async(begun_record)(user=scope["user"], place=place)
        await _tell(send, state="open")
        return await _carried(scope, receive, send, stream)
    except (DatabaseError, InterfaceError):
        return "away", "The portal's database does not answer, so the session cannot be recorded."
    finally:
        await channel.close(stream, "left", "The terminal was closed.")
        with contextlib.suppress(DatabaseError, InterfaceError):  # the trail says that it began
            await database_sync_to_async(ended_record)(user=scope["user"], place=place, seconds=loop.time() - begun)


async def _carried(scope: dict[str, Any], receive: Any, send: Any, stream: Stream) -> Ended:
    """Carry both ways until one end closes it, the person may no longer, or nothing has moved for long."""
    ways = [
        asyncio.ensure_future(each) for each in (_shown(send, stream), _typed(receive, stream), _watch(scope, stream))
    ]
    try:
        done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        return next(iter(done)).result()
    except OSError:  # the page is gone
        return "left", ""
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def _shown(send: Any, stream: Stream) -> Ended:
    while data := await stream.read():
        await send({"type": "websocket.send", "bytes": data})
    return stream.why or ("ended", "The shell has ended.")


async def _typed(receive: Any, stream: Stream) -> Ended:
    while (message := await receive())["type"] == "websocket.receive":
        try:
            async with asyncio.timeout(STUCK_S):
                if message.get("bytes"):
                    await stream.write(message["bytes"])
                elif size := _size(message.get("text") or ""):
                    await stream.size(*size)
        except TimeoutError:
            return "stuck", "The job has not read for a minute what was typed."
        except ClosedError:
            await asyncio.Event().wait()  # `_shown` shows the rest, and tells the end
    return "left", ""


def _size(text: str) -> tuple[int, int] | None:
    """Return columns and rows; None for what is no such message."""
    try:
        said = json.loads(text)
        columns, rows = said["columns"], said["rows"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    whole = type(columns) is int and type(rows) is int
    return (columns, rows) if whole and 0 < columns <= MOST_SIZE and 0 < rows <= MOST_SIZE else None


async def _watch(scope: dict[str, Any], stream: Stream) -> Ended:
    loop, moved, moved_at = asyncio.get_running_loop(), stream.moved, asyncio.get_running_loop().time()
    while True:
        await asyncio.sleep(CHECK_S)
        if stream.moved != moved:
            moved, moved_at = stream.moved, loop.time()
        if loop.time() - moved_at >= IDLE_S:
            return "idle", f"Nobody used this terminal for {round(IDLE_S / 60)} minutes."
        if not await _may_still(scope):
            return "right_ended", "You may no longer act on this job, or you have signed out."


async def _may_still(scope: dict[str, Any]) -> bool:
    number = scope["url_route"]["kwargs"]["number"]
    try:
        if not await still_allowed(scope, []):
            return False
        await database_sync_to_async(job_for)(user=scope["user"], number=number)
    except BerthError:
        return False
    except (DatabaseError, InterfaceError):
        return False  # a right that cannot be asked for is none: this door leads into a job
    return True


async def _tell(send: Any, **said: str) -> None:
    await send({"type": "websocket.send", "text": json.dumps(said)})
