"""All connections of a server, by the thing that they wait for: it closes those that stand still, and those over the limit.

Once a second all are looked at. A head must be whole in ten seconds, a TLS handshake included. A piece of a body must come
in each ten, unless the server itself does not read; a piece of an answer must be read in each ten. Where an address, or all
together, hold too many without a whole request, those that have stood longest are closed, never the newest: an honest one
sends a head at once. One with a whole request (a page, a node's long poll, a WebSocket) is closed only for a slow reader.
"""

from __future__ import annotations

import socket
from itertools import islice, takewhile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from portal.launch.serving.limits import Limits

LATE_S = 0.2
"""The server itself stood still when a look comes later than this."""
_ACKNOWLEDGED = slice(120, 128)
"""Where the bytes that the other side has taken stand in Linux' `struct tcp_info`."""


class Connection:
    """One connection. `address`: the one that it counts for; None while a trusted proxy has not said it."""

    def __init__(self, transport: asyncio.Transport, address: str | None, rests: Callable[[], bool]) -> None:
        self.transport, self.address, self.rests = transport, address, rests
        self.tls: asyncio.Transport | None = None
        self.line: Line | None = None
        self.since = 0.0
        self._socket = transport.get_extra_info("socket")
        self._tells = self._socket.family != socket.AF_UNIX and hasattr(socket, "TCP_INFO")
        self._unread_since: float | None = None
        self._taken = self.part = 0

    def unsent(self) -> int:
        """Return the bytes of answers that wait for the other side to read."""
        return self.transport.get_write_buffer_size() + (self.tls.get_write_buffer_size() if self.tls else 0)

    def unread_s(self, now: float, piece: int) -> float:
        """Return for how long the other side has not read a piece that waits for it."""
        unsent = self.unsent()
        if not unsent:
            self._unread_since = None
            return 0.0
        taken = self._acknowledged() if self._tells else -unsent
        if self._unread_since is None or taken - self._taken >= piece:
            self._unread_since, self._taken = now, taken
        return now - self._unread_since

    def excuse(self, passed: float, now: float) -> None:
        """Forget the time that has passed."""
        self.since = min(now, self.since + passed)
        if self._unread_since is not None:
            self._unread_since = min(now, self._unread_since + passed)

    def _acknowledged(self) -> int:
        told = self._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _ACKNOWLEDGED.stop)
        return int.from_bytes(told[_ACKNOWLEDGED], "little")


class Line:
    """Connections that wait for the same, by address too. First stands the one that has stood still longest."""

    def __init__(self, of_one: int, most: int) -> None:
        self.of_one, self.most = of_one, most
        self.all: dict[Connection, None] = {}
        self.by: dict[str, dict[Connection, None]] = {}

    def put(self, connection: Connection) -> None:
        self.all[connection] = None
        if connection.address is not None:
            self.by.setdefault(connection.address, {})[connection] = None

    def take(self, connection: Connection) -> None:
        del self.all[connection]
        if connection.address is not None:
            mine = self.by[connection.address]
            del mine[connection]
            if not mine:
                del self.by[connection.address]

    def of(self, address: str | None) -> dict[Connection, None]:
        return self.by.get(address, {}) if address is not None else {}

    def too_many(self) -> list[Connection]:
        """Return those that are beyond what one address, or all together, may have here."""
        found = {one: None for mine in self.by.values() for one in islice(mine, max(0, len(mine) - self.of_one))}
        return list(found | dict.fromkeys(islice(self.all, max(0, len(self.all) - self.most))))


class Connections:
    """All connections of a server: `most` at once, half of them from one address."""

    def __init__(self, limits: Limits, *, most: int) -> None:
        self.limits, self.most, self.of_one = limits, most, most // 2
        self.heads, self.bodies = Line(*limits.heads), Line(*limits.bodies)
        self.idle = Line(self.of_one, most)
        self.live: Line = Line(most, most)
        self._unfinished = (self.heads, self.bodies, self.idle)
        self._lines = (*self._unfinished, self.live)
        self._looked_at, self._parts = 0.0, 0

    def enter(self, connection: Connection, now: float) -> bool:
        """Take in a new one; False where all others have whole requests, and no more may be held."""
        address = connection.address
        if sum(len(line.of(address)) for line in self._lines) >= self.of_one:
            room = self._close_first([line.of(address) for line in self._unfinished])
        elif sum(len(line.all) for line in self._lines) >= self.most:
            room = self._close_first([line.all for line in self._unfinished])
        else:
            room = True
        if room:
            self._put(connection, self.heads, now)
        return room

    def _excuse(self, passed: float, now: float) -> None:
        """Count no time for which the server itself stood still: nothing was read meanwhile."""
        for line in self._lines:
            for connection in line.all:
                connection.excuse(passed, now)

    def _close_first(self, waiting: list[dict[Connection, None]]) -> bool:
        for each in waiting:
            if each:
                self.close(next(iter(each)))
                return True
        return False

    def move(self, connection: Connection, line: Line, now: float, address: str | None) -> None:
        """Let it wait for something else, or for more of the same, from now on. One that has left stays away."""
        if connection.line is not None:
            connection.line.take(connection)
            connection.address = address
            self._put(connection, line, now)

    def _put(self, connection: Connection, line: Line, now: float) -> None:
        connection.line, connection.since = line, now
        line.put(connection)

    def hold(self, connection: Connection, size: int) -> bool:
        """Count the bytes of its message of which the end has not come; False for a long one where all are too many."""
        self._parts += size - connection.part
        connection.part = size
        return size <= self.limits.head_bytes or self._parts <= self.limits.parts_bytes

    def leave(self, connection: Connection) -> None:
        """Forget one that has ended."""
        self.hold(connection, 0)
        if connection.line is not None:
            connection.line.take(connection)
            connection.line = None

    def close(self, connection: Connection) -> None:
        self.leave(connection)
        connection.transport.abort()

    def look(self, now: float) -> None:
        """Close those that stood still for too long, and those over the limit. It may be called as often as one likes."""
        if now - self._looked_at < self.limits.look_s:
            return
        passed, self._looked_at = now - (self._looked_at or now), now
        if (late := passed - self.limits.look_s) > LATE_S:
            self._excuse(late, now)
        for line in self._lines:
            for connection in list(line.all):
                if connection.unread_s(now, self.limits.piece) >= self.limits.stand_s:
                    self.close(connection)
        for line in self._unfinished:
            self._look_along(line, now)

    def _look_along(self, line: Line, now: float) -> None:
        for connection in [one for one in line.all if one.rests()]:
            self.move(connection, line, now, connection.address)
        for connection in list(takewhile(lambda one: now - one.since >= self.limits.stand_s, line.all)):
            self.close(connection)
        for connection in line.too_many():
            if now - connection.since >= self.limits.look_s:  # the newest is heard first
                self.close(connection)
