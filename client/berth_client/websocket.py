"""A WebSocket (RFC 6455) that only receives text, with the standard library. Only followers of a log load it."""

from __future__ import annotations

import base64
import hashlib
import os
import socket
import urllib.request
from http.client import HTTPException, parse_headers
from typing import TYPE_CHECKING, BinaryIO, cast
from urllib.parse import urlsplit

from berth_client.errors import ClientError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator, Mapping

MARK = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
"""Section 1.3: a server mixes this into a key, to show that it speaks this protocol."""
MOST_BYTES = 4 << 20
"""Limit of one message; a piece of a log has 256 KiB, each byte of it six characters at most."""
SILENCE_S = 30.0
"""A portal that is silent this long is gone: it sends something every eight seconds."""
CONTINUED, TEXT, CLOSE, PING, PONG = 0, 1, 8, 9, 10
LAST, MASKED, RESERVED = 0x80, 0x80, 0x70


class BrokenError(ClientError):
    """No socket opened, or it broke. Later messages are unknown."""


def proxied(url: str) -> bool:
    """Say whether the environment sends requests to this address by a proxy."""
    parts = urlsplit(url)
    return parts.scheme in urllib.request.getproxies() and not urllib.request.proxy_bypass(parts.netloc)


def texts(url: str, *, headers: Mapping[str, str], tls: Callable[[], ssl.SSLContext]) -> Iterator[str]:
    """Yield the messages of a socket at `url` (http or https) until the portal ends it.

    Raises BrokenError where none opens, and where it breaks: then no part of the last message was yielded.
    """
    try:
        if proxied(url):
            raise BrokenError("The environment names a proxy, and no WebSocket is opened through one.")
        parts = urlsplit(url)
        address = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        with socket.create_connection(address, timeout=SILENCE_S) as plain:
            wire = tls().wrap_socket(plain, server_hostname=address[0]) if parts.scheme == "https" else plain
            with wire, wire.makefile("rb") as reader:
                path = f"{parts.path}?{parts.query}" if parts.query else parts.path
                handshake(wire, reader, path=path, headers={"Host": parts.netloc, **headers})
                yield from _messages(wire, reader)
    except (OSError, HTTPException, ValueError) as error:
        raise BrokenError(f"The connection broke: {error}.") from None


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


def _messages(wire: socket.socket, reader: BinaryIO) -> Iterator[str]:
    message = bytearray()
    begun = False
    while True:
        is_last, kind, data = _frame(reader)
        if kind == CLOSE:
            _say(wire, CLOSE, data[:2])
            return
        if kind == PING:
            _say(wire, PONG, data)
        elif kind != PONG:
            if kind != (CONTINUED if begun else TEXT) or len(message) + len(data) > MOST_BYTES:
                raise BrokenError("This is no text of the portal's.")
            message += data
            begun = not is_last
            if is_last:
                yield message.decode()
                message.clear()


def _frame(reader: BinaryIO) -> tuple[bool, int, bytes]:
    """Return whether it is its message's last, its kind and its data (section 5.2)."""
    first, second = _exactly(reader, 2)
    length = second & ~MASKED
    if length > 125:
        length = int.from_bytes(_exactly(reader, 2 if length == 126 else 8), "big")
    if first & RESERVED or second & MASKED or length > MOST_BYTES:
        raise BrokenError("This is no frame of a portal's.")
    return bool(first & LAST), first & 0x0F, _exactly(reader, length)


def _exactly(reader: BinaryIO, count: int) -> bytes:
    data = reader.read(count)
    if len(data) < count:
        raise BrokenError("The connection ended.")
    return data


def _say(wire: socket.socket, kind: int, data: bytes) -> None:
    """Send a short frame, masked as section 5.3 wants it of clients."""
    mask = os.urandom(4)
    masked = bytes(byte ^ mask[place % 4] for place, byte in enumerate(data[:125]))
    wire.sendall(bytes([LAST | kind, MASKED | len(masked)]) + mask + masked)
