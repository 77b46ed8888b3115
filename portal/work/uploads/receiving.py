"""Takes in the bytes of a content as a plain ASGI app, in front of the view that decides about it.

Django itself would write any body of any size into a temporary file before a view could refuse it. Here the view is asked
first, without the body. Then the bytes go piece by piece to the disk while their hash is computed; a slow sender costs a
coroutine. Then the view is asked again, with the bytes that came.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from portal.foundation.api.errors import plain_error
from portal.foundation.disk import disk_full_error
from portal.foundation.errors import BerthError
from portal.work.uploads.store import PIECE_BYTES, Incoming

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)

STAGE = "berth.upload"
"""In the scope: ASKED before the bytes have come, then the `Incoming`."""
ASKED = object()
MOST_AT_ONCE, MOST_OF_ONE = 32, 8
"""Uploads that come in at one time, in a process of the portal: of all, and of one person."""
SILENCE_S = 30.0
SLOWEST_BYTES_S = 4096.0
"""Below this on the average, after the first silence allowed, a sender is given up."""
ACCEPTED = 202


class SenderLeftError(Exception):
    """The sender went away in the middle."""


class Receiving:
    """`django`: the ASGI application with the view. Other methods than PUT go to it as they are."""

    def __init__(self, django: Callable[..., Awaitable[Any]]) -> None:
        self._django = django
        self._open = 0
        self._of: Counter[str] = Counter()

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["method"] != "PUT":
            await self._django(scope, receive, send)
            return
        if self._open >= MOST_AT_ONCE:
            await _refuse(send, _too_many())
            return
        self._open += 1
        try:
            await self._take(scope, receive, send)
        except SenderLeftError:
            log.info("an upload stopped in the middle; nothing of it was kept")
        finally:
            self._open -= 1

    async def _take(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        answer: list[dict[str, Any]] = []

        async def keep(message: dict[str, Any]) -> None:
            answer.append(message)

        await self._django({**scope, STAGE: ASKED}, _nothing(), keep)
        if not answer or answer[0]["status"] != ACCEPTED:
            for message in answer:
                await send(message)
            return
        who = b"".join(message.get("body", b"") for message in answer[1:]).decode()
        if self._of[who] >= MOST_OF_ONE:
            await _refuse(send, _too_many())
            return
        self._of[who] += 1
        try:
            await self._store(scope, receive, send)
        finally:
            self._of[who] -= 1
            self._of += Counter()  # without those who send nothing now

    async def _store(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Write the bytes to the disk, then have the view keep them. Raises SenderLeftError."""
        incoming = await asyncio.to_thread(Incoming.begin)
        try:
            length = int(dict(scope["headers"]).get(b"content-length", 0))
            await _bytes_take(incoming, length, receive)
            await self._django({**scope, STAGE: incoming}, _nothing(), send)
        except BerthError as error:
            await _refuse(send, error)
        except OSError as error:
            await _refuse(send, disk_full_error(error) or plain_error(500))
            log.exception("an upload cannot be written")
        finally:
            await asyncio.to_thread(incoming.discard)


def _nothing() -> Callable[[], Awaitable[dict[str, Any]]]:
    """Return a `receive` with an empty body whose sender stays."""
    told = False

    async def receive() -> dict[str, Any]:
        nonlocal told
        if told:
            await asyncio.Event().wait()
        told = True
        return {"type": "http.request", "body": b"", "more_body": False}

    return receive


async def _bytes_take(incoming: Incoming, length: int, receive: Any) -> None:
    """Write the body as it comes. Raises BerthError for a slow or too long one, SenderLeftError, OSError."""
    began, kept, more = time.monotonic(), bytearray(), True
    came = 0
    while more:
        try:
            message = await asyncio.wait_for(receive(), SILENCE_S)
        except TimeoutError:
            raise _too_slow() from None
        if message["type"] == "http.disconnect":
            raise SenderLeftError
        body, more = message.get("body", b""), message.get("more_body", False)
        came += len(body)
        kept += body
        if came > length:
            raise BerthError("digest_mismatch", "More bytes came than `Content-Length` says.", field="Content-Length")
        passed_s = time.monotonic() - began
        if passed_s > SILENCE_S and came < SLOWEST_BYTES_S * passed_s:
            raise _too_slow()
        if len(kept) >= PIECE_BYTES:
            await asyncio.to_thread(incoming.write, bytes(kept))
            kept.clear()
    await asyncio.to_thread(incoming.write, bytes(kept))
    await asyncio.to_thread(incoming.finish)


def _too_many() -> BerthError:
    return BerthError("too_many_requests", "Too many uploads at once; try again soon.", status=429)


def _too_slow() -> BerthError:
    return BerthError("too_slow", "The bytes come too slowly; nothing was kept. Send the file again.", status=408)


async def _refuse(send: Any, error: BerthError) -> None:
    body = json.dumps(error.envelope()).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if error.status in {429, 507}:
        headers.append((b"retry-after", b"10"))
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
