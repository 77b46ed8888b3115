"""A WebSocket of a browser, carried to a job's server and back: each end by a library, with messages between them.

`websockets` speaks with the server without a socket of its own (sans-I/O) and bounds its messages. It is fed in small
pieces: a thousand frames of no content would otherwise hold this process for the time of all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidStatus, WebSocketException
from websockets.frames import EXTERNAL_CLOSE_CODES, Frame, Opcode
from websockets.protocol import State
from websockets.uri import WebSocketURI

from portal.foundation.job_names import MOST_MESSAGE
from portal.pages.dashboard.ports.answers import plain
from portal.pages.dashboard.ports.carrying import connected, use_note
from portal.pages.dashboard.ports.headers import to_job
from portal.pages.dashboard.ports.speaking import Stopped
from portal.pages.dashboard.ports.visits import RIGHTS
from portal.pages.dashboard.terminal.session import first_done
from portal.pages.dashboard.terminal.traffic import TRAFFIC
from workers.protocol.frames import ClosedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from portal.pages.dashboard.ports.headers import Origin
    from portal.pages.dashboard.ports.visits import Seen, Visit
    from workers.protocol.frames import Stream

SLICE = 2048
OPEN_S = 30.0
"""Seconds that a job's server may take to open a WebSocket."""
SIGNED_OUT, GOING_AWAY, NO_STATUS, BAD_TEXT, TOO_LARGE, BROKEN = 4401, 1001, 1005, 1007, 1009, 1011
TOO_MUCH = "Too many large messages of this tenant are under way."
MOST_BEAT = 64
"""Bytes of the longest message that may be a beat."""
_QUIET = logging.getLogger("berth.ports.quiet")
_QUIET.disabled = True
"""The page of a tenant's server hears of its faults, and the portal's log does not."""

Close = tuple[int, str]


async def socket_carry(
    scope: dict[str, Any], receive: Any, send: Any, visit: Visit, seen: Seen, origin: Origin
) -> None:
    """Carry a WebSocket until one end closes it, or the person may no longer have it."""
    relay = Relay(scope, receive, send, seen, origin)
    try:
        async with connected(seen.place, origin.port) as stream:
            await relay.open(stream)
            done = await first_done(relay.to_browser(stream), relay.to_job(stream), _over(visit, seen))
            code, reason = done.result()
            await relay.end(stream, code, reason)
    except ClosedError as error:
        await relay.refuse(502, str(error))
    except Stopped as stopped:
        await relay.refuse(502, str(stopped))
    except OSError:  # the browser is gone
        return


async def _over(visit: Visit, seen: Seen) -> Close:
    why = await RIGHTS.ended(visit, seen)
    return (SIGNED_OUT if why.status == 403 else GOING_AWAY), why.detail


class Relay:
    """One WebSocket at both ends."""

    def __init__(self, scope: dict[str, Any], receive: Any, send: Any, seen: Seen, origin: Origin) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self._seen, self._origin = seen, origin
        self._tenant_id = seen.place.job.tenant_id
        path, query = scope["raw_path"].decode("latin-1"), scope["query_string"].decode("latin-1")
        self._there = ClientProtocol(
            WebSocketURI(False, "localhost", origin.port, path, query, None, None),
            subprotocols=scope.get("subprotocols") or None,
            max_size=MOST_MESSAGE,
            logger=_QUIET,
        )
        self._frames: list[Frame] = []
        self._message, self._is_text, self._held = bytearray(), False, 0
        self._accepted = False
        self._sending = asyncio.Lock()

    async def open(self, stream: Stream) -> None:
        """Shake hands with the job's server, then with the browser. Raises Stopped where the server does not."""
        request = self._there.connect()
        del request.headers["Host"]
        for name, value in to_job(self._scope["headers"], self._origin):
            request.headers[name.decode("latin-1")] = value.decode("latin-1")
        self._there.send_request(request)
        await self._flush(stream)
        try:
            async with asyncio.timeout(OPEN_S):
                await self._handshake(stream)
        except TimeoutError:
            raise Stopped("The job's server did not open the WebSocket in time.") from None
        if (error := self._there.handshake_exc) is not None:
            status = error.response.status_code if isinstance(error, InvalidStatus) else None
            said = f"it answered {status}" if status else "it gave no right answer"
            raise Stopped(f"The job's server opened no WebSocket: {said}.")
        await self._send({"type": "websocket.accept", "subprotocol": self._there.subprotocol})
        self._accepted = True

    async def _handshake(self, stream: Stream) -> None:
        while self._there.state is State.CONNECTING and self._there.handshake_exc is None:
            data = await stream.read()
            if not data:
                raise Stopped((stream.why or ("", ""))[1] or "The job's server closed the connection.")
            for piece in _slices(data):
                await self._read(piece)

    async def _read(self, piece: bytes) -> None:
        async with TRAFFIC.turn(self._tenant_id):
            self._there.receive_data(piece)
            came = [each for each in self._there.events_received() if isinstance(each, Frame)]
            TRAFFIC.count(self._tenant_id, len(piece), len(came))
        self._frames += came

    async def _flush(self, stream: Stream) -> None:
        async with self._sending:
            if data := b"".join(self._there.data_to_send()):
                await stream.write(data)

    async def to_browser(self, stream: Stream) -> Close:
        """Pass on what the server says, message by message; return how it closed. Raises OSError."""
        try:
            close = await self._pass_frames(stream)  # those that came with the handshake
            while close is None and (data := await stream.read()):
                for piece in _slices(data):
                    await self._read(piece)
                    if (close := await self._pass_frames(stream)) is not None:
                        break
            return close or (GOING_AWAY, (stream.why or ("", ""))[1])
        except UnicodeDecodeError:
            return BAD_TEXT, "The job's server sent a text that is none."
        finally:
            TRAFFIC.hold(self._tenant_id, -self._held)

    async def _pass_frames(self, stream: Stream) -> Close | None:
        """Pass on the messages that are whole; return how the server closed, when it did."""
        frames, self._frames = self._frames, []
        for frame in frames:
            if frame.opcode in {Opcode.CONT, Opcode.TEXT, Opcode.BINARY}:
                self._is_text = frame.opcode is Opcode.TEXT or (frame.opcode is Opcode.CONT and self._is_text)
                self._message += frame.data
                if frame.fin:
                    whole, self._message = bytes(self._message), bytearray()
                    said: dict[str, Any] = {"text": whole.decode()} if self._is_text else {"bytes": whole}
                    await self._send({"type": "websocket.send", **said})
        with contextlib.suppress(ClosedError):  # it takes no more; its last messages are read
            await self._flush(stream)
        if (closed := self._there.close_rcvd) is not None:
            return closed.code, closed.reason
        if self._there.parser_exc is not None:
            sent = self._there.close_sent
            return (sent.code if sent is not None else BROKEN), "The job's server broke the rules of WebSockets."
        held, self._held = self._held, len(self._message) + len(self._there.reader.buffer)
        if not TRAFFIC.hold(self._tenant_id, self._held - held):
            return TOO_LARGE, TOO_MUCH
        return None

    async def to_job(self, stream: Stream) -> Close:
        """Pass on what the browser says. A message is use of the job, but not one that says again what the last one did.

        So an open page beats: Socket.IO each 25 seconds. Pings are the browser's own, and never come here.
        """
        before = b""
        while (message := await self._receive())["type"] == "websocket.receive":
            data = message.get("bytes")
            body = data if data is not None else message["text"].encode()
            if body != before:
                await use_note(self._seen.place)
            before = body[:MOST_BEAT]
            await TRAFFIC.move(self._tenant_id, len(body))
            try:
                if not TRAFFIC.hold(self._tenant_id, len(body)):
                    return TOO_LARGE, TOO_MUCH
                (self._there.send_text if data is None else self._there.send_binary)(body)
                await self._flush(stream)
            except (ClosedError, WebSocketException):  # it has closed; `to_browser` tells how
                await asyncio.Event().wait()
            finally:
                TRAFFIC.hold(self._tenant_id, -len(body))
        return message.get("code") or GOING_AWAY, message.get("reason") or ""

    async def end(self, stream: Stream, code: int, reason: str) -> None:
        """Close both ends with the same code, as far as they are open."""
        reason = reason.encode()[:120].decode(errors="ignore")
        sendable = code if code in EXTERNAL_CLOSE_CODES or 3000 <= code < 5000 else None
        try:
            async with asyncio.timeout(2.0):
                if self._there.close_sent is None and self._there.close_rcvd is None:
                    self._there.send_close(sendable, reason if sendable else "")
                await self._flush(stream)
        except (ClosedError, WebSocketException, TimeoutError):
            pass
        code = sendable or (1000 if code == NO_STATUS else BROKEN)
        await self._send({"type": "websocket.close", "code": code, "reason": reason})

    async def refuse(self, status: int, words: str) -> None:
        """Say why it was not opened, or close it."""
        try:
            if self._accepted:
                await self._send(
                    {"type": "websocket.close", "code": BROKEN, "reason": words.encode()[:120].decode(errors="ignore")}
                )
            else:
                await plain(self._scope, self._send, status, words)
        except OSError:
            return


def _slices(data: bytes) -> Iterator[bytes]:
    return (data[at : at + SLICE] for at in range(0, len(data), SLICE))
