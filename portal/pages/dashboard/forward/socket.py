"""`/ws/jobs/{number}/forward`: connections to a port that a running job listens on, for a program with a token.

It says first `{"port": 8888}` and gets `{"state": "open", "node"}`; binary messages then are frames of streams, as on a
node's channel (docs/agent-protocol.md): the program opens a stream for each connection. At the end it gets
`{"state": "ended", "code", "detail"}`. No browser comes here: a job's pages have no business at the portal's own origin.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Any

from channels.db import database_sync_to_async
from django.db import DatabaseError, InterfaceError

from portal.foundation.api.sockets import SIGNED_OUT
from portal.foundation.errors import BerthError
from portal.pages.dashboard.forward.carrying import Connections
from portal.pages.dashboard.terminal.callers import ASKED_S, AWAY, program_serve
from portal.pages.dashboard.terminal.rights import PLACES, begun_record, ended_record
from portal.pages.dashboard.terminal.session import Ended, ended_tell, first_done, json_of, session_watch
from workers.protocol.frames import FrameError

if TYPE_CHECKING:
    from portal.pages.dashboard.terminal.callers import Caller
    from portal.pages.dashboard.terminal.rights import Place

GONE = "The attempt of the job that it led to has ended."


async def forward_application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Take a program by its token. A caller without a token is turned away, a signed-in browser too."""
    await program_serve(scope, receive, send, _told)


async def _told(caller: Caller, receive: Any, send: Any) -> None:
    code, detail = await _served(caller, receive, send)
    if code != "left":
        await ended_tell(send, code, detail, close=SIGNED_OUT if code == "right_ended" else 1000)


async def _served(caller: Caller, receive: Any, send: Any) -> Ended:
    try:
        async with asyncio.timeout(ASKED_S):
            message = await receive()
        if message["type"] != "websocket.receive":
            return "left", ""
        port = port_of(json_of(message.get("text") or ""))
        place = await database_sync_to_async(caller.place)()
    except TimeoutError:
        return "invalid", f"Nothing was asked for within {ASKED_S:g} seconds."
    except BerthError as error:
        return error.code, error.detail
    except (DatabaseError, InterfaceError):
        return "away", AWAY
    if (why := PLACES.take(caller.user.pk, place)) is not None:
        return "too_many", why
    try:
        return await _recorded(caller, receive, send, place, port)
    finally:
        PLACES.give(caller.user.pk, place)


def port_of(said: Any) -> int:
    """Return the port that is asked for. Raises BerthError."""
    port = said.get("port") if isinstance(said, dict) else None
    if type(port) is not int or not 0 < port < 1 << 16:
        raise BerthError("invalid", 'The first message is {"port": N}, with a port from 1 to 65535.', field="port")
    return port


async def _recorded(caller: Caller, receive: Any, send: Any, place: Place, port: int) -> Ended:
    """Carry it between two entries of the audit trail."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    about: dict[str, Any] = {"user": caller.user, "place": place, "action": "job.forward", "port": port}
    try:
        await database_sync_to_async(begun_record)(**about)
        await send({"type": "websocket.send", "text": json.dumps({"state": "open", "node": place.node})})
        return await _carried(caller, receive, send, place, port)
    except OSError:  # the program is gone
        return "left", ""
    except (DatabaseError, InterfaceError):
        return "away", f"{AWAY} So the session cannot be recorded."
    finally:
        with contextlib.suppress(DatabaseError, InterfaceError):  # the trail says that it began
            await database_sync_to_async(ended_record)(**about, seconds=loop.time() - begun)


async def _carried(caller: Caller, receive: Any, send: Any, place: Place, port: int) -> Ended:
    asked = {**place.asked, "kind": "port", "port": port}
    connections = Connections(place, asked, lambda frame: send({"type": "websocket.send", "bytes": frame}))
    try:
        done = await first_done(_hear(receive, connections), _watch(caller, place, connections))
        ended: Ended = done.result()
        return ended
    finally:
        await connections.close()


async def _hear(receive: Any, connections: Connections) -> Ended:
    while (message := await receive())["type"] == "websocket.receive":
        try:
            await connections.take(message.get("bytes") or b"")
        except FrameError as error:
            return "invalid", f"The program does not keep the rules of the channel: {error}."
    return "left", ""


async def _watch(caller: Caller, place: Place, connections: Connections) -> Ended:
    async def gone() -> Ended | None:
        return None if await database_sync_to_async(_runs_still)(caller, place) else ("ended", GONE)

    idle, out = "Nothing went through this port", "You may no longer act on this job, or the token has ended."
    return await session_watch(caller, place, lambda: connections.moved, by="port", idle=idle, out=out, also=gone)


def _runs_still(caller: Caller, place: Place) -> bool:
    try:
        return caller.place().asked == place.asked
    except BerthError:
        return False
    except (DatabaseError, InterfaceError):
        return True  # asked again; the node knows as well
