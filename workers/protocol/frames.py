"""Frames of a node's channel, and one stream of it seen from one end (docs/agent-protocol.md, *The channel*).

A frame is one kind (1 byte), the stream's number (4 bytes), and a body. Each end may send `WINDOW` bytes of a stream that
the other has not read yet; reading gives credit back. So an end that does not read stops the other, and no end holds more.
"""

from __future__ import annotations

import asyncio
import json
import re
import struct
from collections import deque
from enum import IntEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

WINDOW = 64 * 1024
"""Bytes of one stream that are under way in one direction."""
MOST_DATA = 16 * 1024
"""Bytes of one frame's data."""
MOST_SAID = 4 * 1024
"""Bytes of the JSON with which a stream is opened or closed."""
MOST_SIZE, MOST_EXIT = 1000, 255
SSH_USER, SSH_KEY = r"[A-Za-z_][A-Za-z0-9_.@-]{0,63}", r"ssh-ed25519 [A-Za-z0-9+/=]{40,120}"
"""The name by which a person's ssh logs in, and the public key that may."""
_HEAD, _CREDIT, _SIZE = struct.Struct("!BI"), struct.Struct("!I"), struct.Struct("!HH")


def is_shaped(value: Any, pattern: str) -> bool:
    """Say whether a value of JSON is a text of this shape, as `SSH_KEY`."""
    return isinstance(value, str) and re.fullmatch(pattern, value) is not None


class FrameError(Exception):
    """The other end does not keep the rules of the channel."""


class ClosedError(Exception):
    """The stream is closed; the text says why."""


class Kind(IntEnum):
    OPEN = 1
    OPENED = 2
    DATA = 3
    CREDIT = 4
    SIZE = 5
    CLOSE = 6


def pack(kind: Kind, number: int, body: bytes = b"") -> bytes:
    return _HEAD.pack(kind, number) + body


def unpack(frame: bytes) -> tuple[Kind, int, bytes]:
    """Return a frame's kind, stream and body. Raises FrameError where it is none, or too long."""
    if len(frame) < _HEAD.size:
        raise FrameError(f"a frame of {len(frame)} bytes")
    raw, number = _HEAD.unpack_from(frame)
    body = frame[_HEAD.size :]
    try:
        kind = Kind(raw)
    except ValueError:
        raise FrameError(f"a frame of the unknown kind {raw}") from None
    most = {Kind.OPEN: MOST_SAID, Kind.OPENED: 0, Kind.DATA: MOST_DATA, Kind.CLOSE: MOST_SAID}
    if len(body) > most.get(kind, _CREDIT.size):
        raise FrameError(f"a frame {kind.name} of {len(body)} bytes")
    return kind, number, body


def unpack_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object of a frame OPEN or CLOSE. Raises FrameError."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise FrameError("a frame without its JSON object")
    return value


def pack_end(code: str, detail: str, exit_code: int | None = None) -> bytes:
    """Return the body of a frame CLOSE. `exit_code`: of the shell that has ended."""
    return json.dumps({"code": code, "detail": detail[:600], "exit_code": exit_code}).encode()


class Stream:
    """One stream at one end. `take` never waits and holds `WINDOW` bytes at most; `read` and `write` wait for the other end."""

    def __init__(self, number: int, send: Callable[[bytes], Awaitable[None]]) -> None:
        self.number = number
        self.why: tuple[str, str] | None = None
        """Code and sentence of its end; None while it is open."""
        self.exit_code: int | None = None
        """The shell's exit code, once it has ended by itself."""
        self.on_size: Callable[[int, int], None] = lambda _columns, _rows: None
        self.moved = 0
        """Bytes that went through it, both ways."""
        self._send = send
        self._came: deque[bytes] = deque()
        self._held, self._room, self._is_open = 0, WINDOW, False
        self._waiters: set[asyncio.Future[None]] = set()

    def take(self, kind: Kind, body: bytes) -> None:
        """Take a frame of the other end. Raises FrameError where it sends what it may not."""
        if kind is Kind.DATA:
            self._held += len(body)
            if self._held > WINDOW:
                raise FrameError(f"more than {WINDOW} bytes of stream {self.number} that were not asked for")
            self._came.append(body)
        elif kind is Kind.CREDIT:
            self._room += _numbers(_CREDIT, body)[0]
            if self._room > WINDOW:
                raise FrameError(f"credit above {WINDOW} bytes on stream {self.number}")
        elif kind is Kind.SIZE:
            columns, rows = _numbers(_SIZE, body)
            if not (0 < columns <= MOST_SIZE and 0 < rows <= MOST_SIZE):
                raise FrameError(f"a terminal of {columns} columns and {rows} rows")
            self.on_size(columns, rows)
        elif kind is Kind.OPENED:
            self._is_open = True
        elif kind is Kind.CLOSE:
            heard = unpack_object(body)
            if self.why is None and type(code := heard.get("exit_code")) is int and 0 <= code <= MOST_EXIT:
                self.exit_code = code
            self.end(str(heard.get("code", ""))[:40], str(heard.get("detail", ""))[:600])
        self._wake()

    def end(self, code: str, detail: str) -> None:
        """Close this end. The first reason counts; earlier bytes can still be read."""
        if self.why is None:
            self.why = (code, detail)
        self._wake()

    async def opened(self) -> None:
        """Return when the other end has opened it. Raises ClosedError."""
        while not self._is_open:
            self._check()
            await self._wait_change()

    async def read(self) -> bytes:
        """Return the received bytes, and give the credit for them back; b"" at the end of the stream."""
        while not self._came:
            if self.why is not None:
                return b""
            await self._wait_change()
        data = self._came.popleft()
        self._held -= len(data)
        self.moved += len(data)
        if self.why is None:
            await self._send(pack(Kind.CREDIT, self.number, _CREDIT.pack(len(data))))
        return data

    async def write(self, data: bytes) -> None:
        """Send it all, as far as the other end reads. Raises ClosedError."""
        while data:
            while self._room == 0:
                self._check()
                await self._wait_change()
            self._check()
            piece = data[: min(self._room, MOST_DATA)]
            data = data[len(piece) :]
            self._room -= len(piece)
            self.moved += len(piece)
            await self._send(pack(Kind.DATA, self.number, piece))

    async def size(self, columns: int, rows: int) -> None:
        await self._send(pack(Kind.SIZE, self.number, _SIZE.pack(columns, rows)))

    def _check(self) -> None:
        if self.why is not None:
            raise ClosedError(self.why[1] or self.why[0])

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def _wait_change(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await waiter
        finally:
            self._waiters.discard(waiter)


def _numbers(shape: struct.Struct, body: bytes) -> tuple[Any, ...]:
    if len(body) != shape.size:
        raise FrameError(f"a body of {len(body)} bytes instead of {shape.size}")
    return shape.unpack(body)
