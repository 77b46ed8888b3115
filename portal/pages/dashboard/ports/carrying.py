"""One request of a browser, carried to a job's server over a stream of its node's channel, and the answer back.

Each request has a stream of its own, so that no answer can be taken for another's. Bodies pass in pieces, as far as the
other end reads.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from channels.db import database_sync_to_async
from django.db import DatabaseError, InterfaceError

from portal.nodes.channel import channel_of
from portal.pages.dashboard.ports.answers import page, plain
from portal.pages.dashboard.ports.headers import one, to_browser
from portal.pages.dashboard.ports.speaking import Answer, Stopped, body_of, head_of, is_chunked
from portal.pages.dashboard.ports.visits import RIGHTS
from portal.pages.dashboard.terminal.session import CALL_S, first_done
from portal.pages.dashboard.terminal.traffic import TRAFFIC, VISIT_BYTES
from portal.work.jobs.idle.using import idle_used
from workers.protocol.frames import ClosedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from portal.pages.dashboard.ports.headers import Origin
    from portal.pages.dashboard.ports.visits import Seen, Visit
    from portal.pages.dashboard.terminal.rights import Place
    from workers.protocol.frames import Stream

SAFE = {"GET", "HEAD", "OPTIONS"}
WAIT_S = 3
"""Seconds after which a page loads again whose job does not listen yet."""
USED_S = 4.0
NO_BODY = {204, 304}

_used_at: dict[int, float] = {}


async def use_note(place: Place) -> None:
    """Note that a person uses the job, once in `USED_S`: the idle time-out begins anew."""
    now = asyncio.get_running_loop().time()
    if place.job.idle_timeout_s is None or now < _used_at.get(place.attempt_id, 0.0) + USED_S:
        return
    if len(_used_at) > 1000:
        _used_at.clear()
    _used_at[place.attempt_id] = now
    with contextlib.suppress(DatabaseError, InterfaceError):  # noted again at the next one
        await database_sync_to_async(idle_used)(attempt_id=place.attempt_id, by="port")


@contextlib.asynccontextmanager
async def connected(place: Place, port: int) -> AsyncIterator[Stream]:
    """Connect to the job's port, at the price of a visit. Raises ClosedError with the node's reason."""
    await TRAFFIC.move(place.job.tenant_id, VISIT_BYTES)
    channel = await channel_of(place.node_id, limit_s=CALL_S)
    stream = await channel.open({**place.asked, "kind": "port", "port": port}, tenant_id=place.job.tenant_id)
    try:
        yield stream
    finally:
        await channel.close(stream, "left", "The connection was closed.")


def is_use(scope: dict[str, Any]) -> bool:
    """Say whether a person asks: sends something, or opens a page by hand. An open page fetches and reloads by itself."""
    return scope["method"] not in SAFE or one(scope["headers"], b"sec-fetch-user") == "?1"


async def http_carry(scope: dict[str, Any], receive: Any, send: Any, visit: Visit, seen: Seen, origin: Origin) -> None:
    """Carry a request. The answer ends early where the person leaves, or may no longer have it."""
    if is_use(scope):
        await use_note(seen.place)
    exchange = Exchange(scope, receive, send, seen.place.job.tenant_id, origin)
    try:
        async with connected(seen.place, origin.port) as stream:
            await exchange.begin(stream)
            done = await first_done(exchange.answer(stream), exchange.ask(stream), RIGHTS.ended(visit, seen))
            why = done.result()
    except ClosedError as error:
        await exchange.refuse(str(error), waits=True)
        return
    except Stopped as stopped:
        await exchange.refuse(str(stopped))
        return
    except OSError:  # the browser is gone
        return
    if why is not None:
        await exchange.refuse(why.detail)


class Exchange:
    """A request and its answer. `tenant_id`: whose traffic it counts as."""

    def __init__(self, scope: dict[str, Any], receive: Any, send: Any, tenant_id: int, origin: Origin) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self._tenant_id, self._origin = tenant_id, origin
        self._begun = False

    async def begin(self, stream: Stream) -> None:
        """Send the head of the request. Raises ClosedError."""
        await stream.write(head_of(self._scope, self._origin))

    async def ask(self, stream: Stream) -> None:
        """Send the body of the request, then wait until the browser is gone. Raises OSError."""
        chunked = is_chunked(self._scope)
        try:
            while (message := await self._receive())["type"] == "http.request":
                body = message.get("body", b"")
                await TRAFFIC.move(self._tenant_id, len(body))
                await stream.write(body_of(body, chunked=chunked, last=not message.get("more_body", False)))
        except ClosedError:  # the server takes no more; `answer` has what it still said
            await asyncio.Event().wait()
        raise ConnectionResetError

    async def answer(self, stream: Stream) -> None:
        """Send the answer to the browser. Raises Stopped, OSError."""
        answer = Answer(self._scope["method"])
        while not answer.is_whole and (data := await stream.read()):
            async with TRAFFIC.turn(self._tenant_id):
                body, events = answer.take(data)
                TRAFFIC.count(self._tenant_id, len(data), events)
            if answer.status and not self._begun:
                await self._start(answer)
            if body:
                await self._send({"type": "http.response.body", "body": body, "more_body": True})
        code, detail = stream.why or ("ended", "")
        answer.end(cut="" if code == "ended" else detail)
        await self._send({"type": "http.response.body", "body": b""})

    async def _start(self, answer: Answer) -> None:
        self._begun = True
        passed = to_browser(answer.headers, self._origin, empty=answer.status in NO_BODY)
        await self._send({"type": "http.response.start", "status": answer.status, "headers": passed})

    async def refuse(self, words: str, *, waits: bool = False) -> None:
        """Say it in place of the answer; where that has begun, cut the connection: an end would make it look whole."""
        if self._begun:
            if cut := self._scope.get("extensions", {}).get("berth.cut"):
                cut["cut"]()
                await asyncio.sleep(0.01)
            return
        with contextlib.suppress(OSError):
            if one(self._scope["headers"], b"sec-fetch-mode") == "navigate":
                again_s = WAIT_S if waits and self._scope["method"] == "GET" else None
                await page(self._send, 502, words, again_s=again_s)
            else:
                await plain(self._scope, self._send, 502, words)
