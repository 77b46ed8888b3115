"""A WebSocket (RFC 6455) for both ways that never blocks, with the standard library. Only terminals load it."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
from http.client import HTTPException
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from berth_client.websocket import (
    CLOSE,
    CONTINUED,
    LAST,
    MASKED,
    MOST_BYTES,
    PING,
    PONG,
    RESERVED,
    TEXT,
    BrokenError,
    handshake,
    proxied,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

BINARY = 2
OPEN_S = 30.0
READ_BYTES = 64 * 1024
_WAIT = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Duplex:
    """Opened when it is made. `take` and `flush` do what can be done at once; `fileno` says when more can be.

    Raises BrokenError where none opens, and where it breaks.
    """

    def __init__(self, url: str, *, headers: Mapping[str, str], tls: Callable[[], ssl.SSLContext]) -> None:
        if proxied(url):
            raise BrokenError("The environment names a proxy, and no terminal is opened through one (NO_PROXY).")
        self.is_over = False
        self._came, self._message, self._kind = bytearray(), bytearray(), CONTINUED
        self._out = bytearray()
        parts = urlsplit(url)
        address = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        try:
            wire = socket.create_connection(address, timeout=OPEN_S)
        except OSError as error:
            raise BrokenError(f"{parts.netloc} does not answer: {error}.") from None
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
        found: list[bytes | str] = []
        while not self.is_over and (frame := self._frame()) is not None:
            last, kind, data = frame
            if kind == CLOSE:
                self._put(CLOSE, data[:2])
                self.is_over = True
            elif kind == PING:
                self._put(PONG, data)
            elif kind != PONG:
                found += self._joined(last, kind, data)
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
