"""A WebSocket (RFC 6455) that never blocks, with the standard library. Followers of a log, terminals and ports load it."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import select
import socket
import ssl
import time
import urllib.request
from http.client import HTTPException, parse_headers
from typing import TYPE_CHECKING, BinaryIO, cast
from urllib.parse import urlsplit

from berth_client.errors import AwayError, ClientError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

MARK = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
"""Section 1.3: a server mixes this into a key, to show that it speaks this protocol."""
MOST_BYTES = 4 << 20
"""Limit of one message; a piece of a log has 256 KiB, each byte of it six characters at most."""
SILENCE_S = 30.0
"""A portal that is silent this long is gone: it sends something every eight seconds."""
PING_S, LOST_S = 15.0, 45.0
"""A silent portal gets a ping after the one time, and counts as gone after the other."""
CONTINUED, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
LAST, MASKED, RESERVED = 0x80, 0x80, 0x70
READ_BYTES = 64 * 1024
_WAIT = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class BrokenError(ClientError):
    """No socket opened, or it broke. Later messages are unknown."""


def proxied(url: str) -> bool:
    """Say whether the environment sends requests to this address by a proxy."""
    parts = urlsplit(url)
    return parts.scheme in urllib.request.getproxies() and not urllib.request.proxy_bypass(parts.netloc)


def handshake(
    wire: socket.socket, reader: BinaryIO | socket.SocketIO, *, path: str, headers: Mapping[str, str]
) -> None:
    """Ask for a WebSocket and read the answer (section 4.1). Raises BrokenError where none is opened."""
    key = base64.b64encode(os.urandom(16)).decode()
    asked = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": key}
    lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in {**headers, **asked}.items())]
    wire.sendall(("\r\n".join(lines) + "\r\n\r\n").encode("ascii"))
    status = reader.readline(1000).split()
    told = parse_headers(cast("BinaryIO", reader))
    accepted = base64.b64encode(hashlib.sha1(f"{key}{MARK}".encode()).digest()).decode()  # noqa: S324 - section 4.2.2
    if status[1:2] != [b"101"] or told.get("Sec-WebSocket-Accept", "").strip() != accepted:
        raise BrokenError("No WebSocket is opened there.")


class Duplex:
    """Opened when it is made. `take` and `flush` do what can be done at once; `fileno` says when more can be.

    Raises BrokenError where none opens, and where it breaks.
    """

    def __init__(self, url: str, *, headers: Mapping[str, str], tls: Callable[[], ssl.SSLContext]) -> None:
        self.is_over = False
        self._fault: BrokenError | None = None
        self._came, self._message, self._kind = bytearray(), bytearray(), CONTINUED
        self._out = bytearray()
        try:
            parts = urlsplit(url)
            if proxied(url):
                raise BrokenError("The environment names a proxy, and no WebSocket is opened through one (NO_PROXY).")
            address = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
            wire = socket.create_connection(address, timeout=SILENCE_S)
        except (OSError, ValueError) as error:
            raise BrokenError(f"{url.split('/')[2]} does not answer: {error}.") from None
        try:
            self._wire = tls().wrap_socket(wire, server_hostname=address[0]) if parts.scheme == "https" else wire
            path = f"{parts.path}?{parts.query}" if parts.query else parts.path
            with self._wire.makefile("rb", buffering=0) as reader:  # unbuffered: the bytes that follow are ours
                handshake(self._wire, reader, path=path, headers={"Host": parts.netloc, **headers})
            self._wire.setblocking(False)
        except BaseException as error:
            wire.close()
            if isinstance(error, OSError | HTTPException | ValueError):
                raise BrokenError(f"The connection broke: {error}.") from None
            raise

    def fileno(self) -> int:
        return self._wire.fileno()

    def close(self) -> None:
        """Say that it ends, as far as that goes at once."""
        if not self.is_over:
            self._put(CLOSE, (1000).to_bytes(2, "big"))
            with contextlib.suppress(BrokenError):
                self.flush()
        self._wire.close()

    @property
    def waiting(self) -> int:
        return len(self._out)

    def send(self, data: bytes | str) -> None:
        """Take a message to be sent by `flush`."""
        self._put(TEXT if isinstance(data, str) else BINARY, data.encode() if isinstance(data, str) else data)

    def ping(self) -> None:
        self._put(PING, b"")

    def flush(self) -> None:
        while self._out:
            try:
                sent = self._wire.send(self._out)
            except _WAIT:
                return
            except OSError as error:
                raise BrokenError(f"The connection broke: {error}.") from None
            del self._out[:sent]

    def take(self) -> tuple[list[bytes | str], bool]:
        """Return the whole messages that came, and whether anything came at all; `is_over` once the other end has closed."""
        if self._fault is not None:
            raise self._fault
        heard = False
        while len(self._came) < MOST_BYTES:
            try:
                data = self._wire.recv(READ_BYTES)
            except _WAIT:
                break
            except OSError as error:
                raise BrokenError(f"The connection broke: {error}.") from None
            if not data:
                if not heard:
                    raise BrokenError("The connection ended.")
                break
            self._came += data
            heard = True
        return self._whole(), heard

    def _whole(self) -> list[bytes | str]:
        """Return the messages before a broken frame; the next `take` raises for that one."""
        found: list[bytes | str] = []
        try:
            while not self.is_over and (frame := self._frame()) is not None:
                last, kind, data = frame
                if kind == CLOSE:
                    self._put(CLOSE, data[:2])
                    self.is_over = True
                elif kind == PING:
                    self._put(PONG, data)
                elif kind != PONG:
                    found += self._joined(last, kind, data)
        except BrokenError as error:
            self._fault = error
        return found

    def _joined(self, last: bool, kind: int, data: bytes) -> list[bytes | str]:
        """Return the message that this frame ends, if it does (section 5.4)."""
        begun = self._kind != CONTINUED
        if (kind == CONTINUED) != begun or kind not in (CONTINUED, TEXT, BINARY):
            raise BrokenError("This is no message of the portal's.")
        self._kind = self._kind if begun else kind
        self._message += data
        if len(self._message) > MOST_BYTES:
            raise BrokenError("This is no message of the portal's.")
        if not last:
            return []
        whole, is_text = bytes(self._message), self._kind == TEXT
        self._message.clear()
        self._kind = CONTINUED
        try:
            return [whole.decode() if is_text else whole]
        except UnicodeDecodeError:
            raise BrokenError("This is no text of the portal's.") from None

    def _frame(self) -> tuple[bool, int, bytes] | None:
        """Take a whole frame; None where there is none yet (section 5.2)."""
        came = self._came
        if len(came) < 2:
            return None
        first, length, head = came[0], came[1] & ~MASKED, 2
        if first & RESERVED or came[1] & MASKED:
            raise BrokenError("This is no frame of a portal's.")
        if length > 125:
            head += 2 if length == 126 else 8
            if len(came) < head:
                return None
            length = int.from_bytes(came[2:head], "big")
        if length > MOST_BYTES:
            raise BrokenError("This is no frame of a portal's.")
        if len(came) < head + length:
            return None
        data = bytes(came[head : head + length])
        del came[: head + length]
        return bool(first & LAST), first & 0x0F, data

    def _put(self, kind: int, data: bytes) -> None:
        """Queue a frame, masked as section 5.3 wants it of clients."""
        length, mask = len(data), os.urandom(4)
        if length < 126:
            head = bytes([LAST | kind, MASKED | length])
        elif length < 1 << 16:
            head = bytes([LAST | kind, MASKED | 126]) + length.to_bytes(2, "big")
        else:
            head = bytes([LAST | kind, MASKED | 127]) + length.to_bytes(8, "big")
        masked = int.from_bytes(data, "big") ^ int.from_bytes((mask * (length // 4 + 1))[:length], "big")
        self._out += head + mask + masked.to_bytes(length, "big")


def texts(talk: Duplex) -> Iterator[str]:
    """Yield the messages until the portal ends the socket. Raises BrokenError where it breaks, and at a message of bytes."""
    with contextlib.closing(talk):
        while not talk.is_over:
            messages, heard = talk.take()
            talk.flush()
            for message in messages:
                if isinstance(message, bytes):
                    raise BrokenError("This is no text of the portal's.")
                yield message
            if not heard and not select.select([talk], [], [], SILENCE_S)[0]:
                raise BrokenError("The portal is silent.")


class Heart:
    """Takes messages from a socket of the portal, and notices when the portal is gone."""

    def __init__(self, talk: Duplex) -> None:
        self._talk = talk
        self._heard_s = self._asked_s = time.monotonic()

    def take(self) -> list[bytes | str]:
        """Return the messages that came. Asks a silent portal, and raises AwayError when it says nothing for long."""
        messages, heard = self._talk.take()
        now = time.monotonic()
        if heard:
            self._heard_s = self._asked_s = now
        elif now - self._heard_s > LOST_S:
            raise AwayError(f"the portal has said nothing for {LOST_S:g} s, so the connection is lost; the job runs on")
        elif now - self._asked_s > PING_S:
            self._asked_s = now
            self._talk.ping()
        return messages
