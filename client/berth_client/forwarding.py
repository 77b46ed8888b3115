"""A port of a running job, reached from here: its socket, and the connections that go through it as streams.

Frames and credit are those of a node's channel (docs/agent-protocol.md, *The channel*): one kind (1 byte), the stream's
number (4 bytes), a body. Each end may send `WINDOW` bytes of a stream that the other has not passed on yet.
"""

from __future__ import annotations

import json
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from berth_client.errors import AwayError

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from berth_client.websocket import Duplex

OPEN, DATA, CREDIT, CLOSE = 1, 3, 4, 6
WINDOW = 64 * 1024
MOST_DATA = 16 * 1024
QUIET = frozenset({"left", "ended"})
"""Codes of a connection's end that is nothing to tell of."""
_HEAD, _CREDIT = struct.Struct("!BI"), struct.Struct("!I")


class Connection:
    """One connection from here. `out`: bytes from the job that the local end has not taken yet."""

    def __init__(self, number: int, wire: socket.socket) -> None:
        self.number, self.wire = number, wire
        self.out = bytearray()
        self.room, self.is_ending = WINDOW, False

    def fileno(self) -> int:
        return self.wire.fileno()


class Connections:
    """All connections of one forwarded port. Nothing here waits, and each holds `WINDOW` bytes at most.

    `say` gets the reason when the job's side cannot be reached.
    """

    def __init__(self, talk: Duplex, say: Callable[[str], None]) -> None:
        self._talk, self._say = talk, say
        self._all: dict[int, Connection] = {}
        self._number = 0

    def __len__(self) -> int:
        return len(self._all)

    def readable(self) -> list[Connection]:
        return [each for each in self._all.values() if each.room and not each.is_ending]

    def writable(self) -> list[Connection]:
        return [each for each in self._all.values() if each.out]

    def accept(self, wire: socket.socket) -> None:
        wire.setblocking(False)
        self._number += 1
        self._all[self._number] = Connection(self._number, wire)
        self._send(OPEN, self._number)

    def read(self, connection: Connection) -> None:
        """Send on what the other end here says; at its end, end the stream."""
        try:
            data = connection.wire.recv(min(connection.room, MOST_DATA))
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if data:
            connection.room -= len(data)
            self._send(DATA, connection.number, data)
        else:
            self._leave(connection)

    def write(self, connection: Connection) -> None:
        """Pass on what the job said, and give credit for it."""
        try:
            passed = connection.wire.send(connection.out)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._leave(connection)
            return
        del connection.out[:passed]
        if not connection.is_ending:
            self._send(CREDIT, connection.number, _CREDIT.pack(passed))
        elif not connection.out:
            self._drop(connection)

    def hear(self, frame: bytes) -> None:
        """Take a frame of the portal. Raises AwayError for a broken one."""
        if len(frame) < _HEAD.size:
            raise AwayError("This is no frame of a portal's.")
        kind, number = _HEAD.unpack_from(frame)
        connection, body = self._all.get(number), frame[_HEAD.size :]
        if connection is None or connection.is_ending:  # it was closed here meanwhile
            return
        if kind == DATA:
            connection.out += body
            if len(connection.out) > WINDOW:
                raise AwayError("The portal sends more than it was asked for.")
        elif kind == CREDIT and len(body) == _CREDIT.size:
            connection.room = min(WINDOW, connection.room + _CREDIT.unpack(body)[0])
        elif kind == CLOSE:
            said = _object(body)
            if said.get("code") not in QUIET:
                self._say(str(said.get("detail") or said.get("code")))
            connection.is_ending = True
            if not connection.out:
                self._drop(connection)

    def close(self) -> None:
        for connection in tuple(self._all.values()):
            self._drop(connection)

    def _leave(self, connection: Connection) -> None:
        if not connection.is_ending:
            self._send(CLOSE, connection.number, b'{"code": "left", "detail": ""}')
        self._drop(connection)

    def _drop(self, connection: Connection) -> None:
        del self._all[connection.number]
        with suppress(OSError):
            connection.wire.close()

    def _send(self, kind: int, number: int, body: bytes = b"") -> None:
        self._talk.send(_HEAD.pack(kind, number) + body)


def _object(body: bytes) -> dict[str, Any]:
    try:
        said = json.loads(body)
    except ValueError:
        said = None
    return said if isinstance(said, dict) else {}
