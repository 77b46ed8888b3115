"""Read both streams of an attempt's part as one text: whole lines, in the order in which their pieces reached the portal.

The cursor is `stdout.stderr`, the bytes of each stream that were read, so that nothing is lost or doubled whichever piece
is stored first. A line that has not ended yet waits for its rest, or for the attempt's end; a line longer than an answer
does not. A carriage return ends a line too: progress bars print no other.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from django.db.models import F, Q

from portal.errors import BerthError
from portal.jobs.log_reading import STREAMS, LogPart, offset_of_tail, offset_since, utf8_whole
from portal.jobs.models import LogChunk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from portal.jobs.models import Attempt

_CURSOR = re.compile(r"(\d{1,15})\.(\d{1,15})\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Cursor:
    """How many bytes of each stream were read."""

    stdout: int = 0
    stderr: int = 0

    @classmethod
    def of(cls, text: str) -> Cursor:
        """Read a cursor. Raises BerthError when the text is not one."""
        found = _CURSOR.match(text)
        if found is None:
            raise BerthError("invalid", "Send the `next` of the last answer unchanged.", field="cursor")
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.stdout}.{self.stderr}"

    def get(self, stream: str) -> int:
        return int(getattr(self, stream))

    def ahead(self, stream: str, count: int) -> Cursor:
        return replace(self, **{stream: self.get(stream) + count})


@dataclass(frozen=True, slots=True)
class BothStreams:
    """Both streams of one node's part of an attempt."""

    attempt: Attempt
    rank: int

    def part(self, stream: str) -> LogPart:
        return LogPart(self.attempt, self.rank, stream)

    def end(self) -> Cursor:
        return Cursor(*(self.part(stream).length() for stream in STREAMS))

    def since(self, moment: datetime) -> Cursor:
        return Cursor(*(offset_since(self.part(stream), since=moment) for stream in STREAMS))

    def read(self, start: Cursor, *, limit: int, flush: bool) -> tuple[bytes, Cursor]:
        """Return up to `limit` bytes after the cursor, and the cursor behind them. `flush`: no more will come."""
        pieces: list[bytes] = []
        room, at = limit, start
        for stream, data in self._lines(start, limit=limit, flush=flush):
            piece = (
                data if len(data) <= room else data[: max(data.rfind(b"\n", 0, room), data.rfind(b"\r", 0, room)) + 1]
            )
            if not piece and not pieces:
                piece = utf8_whole(data[:room])
            if piece:
                pieces.append(piece)
                room, at = room - len(piece), at.ahead(stream, len(piece))
            if len(piece) < len(data):
                break
        return b"".join(pieces), at

    def _lines(self, start: Cursor, *, limit: int, flush: bool) -> Iterator[tuple[str, bytes]]:
        """Yield (stream, whole lines) in the order of the chunks that ended them."""
        rests = dict.fromkeys(STREAMS, b"")
        behind = Q()
        for stream in STREAMS:
            behind |= Q(stream=stream, end__gt=start.get(stream))
        rows = LogChunk.objects.filter(attempt=self.attempt, rank=self.rank).alias(end=F("offset") + F("length"))
        wanted = rows.filter(behind).order_by("id").values_list("stream", "offset", "data")
        for stream, offset, data in wanted.iterator(chunk_size=8):
            text = rests[stream] + bytes(data)[max(0, start.get(stream) - offset) :]
            cut = max(text.rfind(b"\n"), text.rfind(b"\r")) + 1
            if len(text) - cut >= limit:
                cut = len(utf8_whole(text))  # longer than an answer: its end is not waited for
            if cut:
                yield stream, text[:cut]
            rests[stream] = text[cut:]
        for stream in STREAMS if flush else ():
            if rests[stream]:
                yield stream, rests[stream]

    def tail(self, start: Cursor, *, lines: int, limit: int, flush: bool) -> tuple[bytes, Cursor]:
        """Return the last `lines` lines after the cursor, at most `limit` bytes, and the cursor behind them."""
        first = Cursor(
            *(max(start.get(stream), offset_of_tail(self.part(stream), lines=lines, limit=limit)) for stream in STREAMS)
        )
        text, end = self.read(first, limit=2 * limit, flush=flush)
        shown = b"".join(text.splitlines(keepends=True)[-lines:])
        return shown if len(shown) <= limit else _from_a_line(shown[-limit:]), end


def _from_a_line(text: bytes) -> bytes:
    """Drop the first, incomplete line of a text that begins in the middle of a line."""
    return text[text.find(b"\n") + 1 :]
