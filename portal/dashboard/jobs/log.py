"""The log viewer's lines: both streams of a part in the order they came, read on from a cursor.

The cursor is `lines.stdout.stderr`: how many lines were given, and up to which byte of each stream. What stands behind the
last newline is given as `open`, as it is now, and again until it is whole. A look reads a bounded part of the log.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django.db.models import F, Q

from portal.errors import BerthError
from portal.jobs.log_reading import LINE_BYTES, STREAMS, line_shown, log_part, utf8_whole
from portal.jobs.models import LogChunk
from portal.jobs.states import FINAL

if TYPE_CHECKING:
    from datetime import datetime

    from portal.jobs.models import Attempt, Job

LINES_A_PAGE = 2000
TAIL_BYTES = 512 * 1024
"""A first read starts so far before the end of each stream; earlier lines are in the download."""
LINE_CHARS = 8000
LOOK_BYTES = 1024 * 1024
"""A look ends after the piece that reaches this; the next one goes on there."""
_CURSOR = re.compile(r"(\d{1,15})\.(\d{1,15})\.(\d{1,15})\Z", re.ASCII)
_LEVEL = re.compile(r"\b(?:(ERROR|CRITICAL|FATAL|Traceback)|(WARN)(?:ING)?|(INFO))\b")


def log_page(*, job: Job, attempt: int | None, rank: int, stream: str, cursor: str) -> dict[str, Any]:
    """Return `{"lines", "open", "next", "size_bytes", "ended"}` from the cursor on ("" = the tail)."""
    if stream and stream not in STREAMS:
        raise BerthError("invalid", "The stream is stdout or stderr, or empty for both.", field="stream")
    part = log_part(job=job, epoch=attempt, rank=rank, stream="stdout")
    if part is None:
        return {"lines": [], "open": [], "next": "", "size_bytes": None, "ended": job.state in FINAL}
    row, chosen = part.attempt, [stream] if stream else list(STREAMS)
    sizes = _sizes(row, rank)
    count, offsets = _cursor_read(cursor) if cursor else _tail(row, rank, sizes, chosen)
    ended = row.ended_at is not None
    read = _Read(dict(offsets))
    is_all = _read(read, row, rank, chosen, flush=ended)
    shown = [_row(count + place, *line) for place, line in enumerate(read.lines, 1)]
    rests = [(name, read.at[name], utf8_whole(rest)) for name, rest in read.rests.items() if rest and is_all]
    following = count + len(shown)
    return {
        "lines": shown,
        "open": [_row(following + place, *rest) for place, rest in enumerate(rests, 1)],
        "next": f"{following}.{read.ends['stdout']}.{read.ends['stderr']}",
        "size_bytes": sum(sizes[name] for name in chosen),
        "ended": ended and is_all,
    }


def _row(number: int, stream: str, at: datetime | None, data: bytes) -> dict[str, Any]:
    text = line_shown(data)[:LINE_CHARS]
    return {"n": number, "at": at and at.isoformat(), "level": _level(text), "stream": stream, "text": text}


def log_parts(*, job: Job, epoch: int | None, profile: bool = False) -> list[tuple[int, str]]:
    """Return the (rank, stream) pairs that an attempt, or a profile, wrote to."""
    part = log_part(job=job, epoch=epoch, rank=0, stream="stdout", profile=profile)
    if part is None:
        return []
    rows = LogChunk.objects.filter(attempt=part.attempt).order_by("rank", "-stream").values_list("rank", "stream")
    return list(dict.fromkeys(rows))


def _sizes(attempt: Attempt, rank: int) -> dict[str, int]:
    sizes = dict.fromkeys(STREAMS, 0)
    chunks = LogChunk.objects.filter(attempt=attempt, rank=rank).order_by()
    for name, end in chunks.annotate(end=F("offset") + F("length")).values_list("stream", "end"):
        sizes[name] = max(sizes[name], end)
    return sizes


def _cursor_read(cursor: str) -> tuple[int, dict[str, int]]:
    found = _CURSOR.match(cursor)
    if found is None:
        raise BerthError("invalid", "Send the cursor that the last answer gave as `next`.", field="offset")
    return int(found[1]), {"stdout": int(found[2]), "stderr": int(found[3])}


def _tail(attempt: Attempt, rank: int, sizes: dict[str, int], chosen: list[str]) -> tuple[int, dict[str, int]]:
    """Return where the tail begins: the number of lines before it, and each stream's offset at a line's start."""
    offsets, count = dict.fromkeys(STREAMS, 0), 0
    for name in chosen:
        limit = sizes[name] - TAIL_BYTES
        if limit <= 0:
            continue
        chunks = LogChunk.objects.filter(attempt=attempt, rank=rank, stream=name, offset__lt=limit).order_by("offset")
        for offset, data in chunks.values_list("offset", "data").iterator(chunk_size=8):
            piece = bytes(data)[: limit - offset]
            count += piece.count(b"\n")
            if (last := piece.rfind(b"\n")) >= 0:
                offsets[name] = offset + last + 1
    return count, offsets


@dataclass
class _Read:
    """What a look found: lines, where each stream goes on, and the lines that have not ended."""

    ends: dict[str, int]
    lines: list[tuple[str, datetime | None, bytes]] = field(default_factory=list)
    rests: dict[str, bytes] = field(default_factory=lambda: dict.fromkeys(STREAMS, b""))
    at: dict[str, datetime | None] = field(default_factory=lambda: dict.fromkeys(STREAMS))

    def add(self, stream: str, data: bytes, at: datetime) -> None:
        """Take what follows of a stream: whole lines as lines, of a line without end what is too long to keep."""
        *whole, rest = (self.rests[stream] + data).split(b"\n")
        self.at[stream] = at
        for line in whole:
            self._give(stream, line)
            self.ends[stream] += 1
        while len(rest) > LINE_BYTES:
            redrawn = rest.rfind(b"\r", 0, LINE_BYTES) + 1
            piece = rest[:redrawn] if redrawn else utf8_whole(rest[:LINE_BYTES])
            if redrawn:
                self.ends[stream] += redrawn
            else:
                self._give(stream, piece)
            rest = rest[len(piece) :]
        self.rests[stream] = rest

    def finish(self) -> None:
        """No more will come: what has not ended is a line too."""
        for stream, rest in self.rests.items():
            if rest:
                self._give(stream, rest)
        self.rests = {}

    def _give(self, stream: str, line: bytes) -> None:
        self.ends[stream] += len(line)
        self.lines.append((stream, self.at[stream], line))


def _read(read: _Read, attempt: Attempt, rank: int, chosen: list[str], *, flush: bool) -> bool:
    """Read on behind the offsets, in the order in which the pieces came; say whether all that is stored was read."""
    start, behind, size = dict(read.ends), Q(), 0
    for name in chosen:
        behind |= Q(stream=name, end__gt=start[name])
    rows = LogChunk.objects.filter(attempt=attempt, rank=rank).alias(end=F("offset") + F("length")).filter(behind)
    for name, offset, at, raw in (
        rows.order_by("id").values_list("stream", "offset", "at", "data").iterator(chunk_size=2)
    ):
        if size >= LOOK_BYTES or len(read.lines) >= LINES_A_PAGE:
            return False
        data = bytes(raw)[max(0, start[name] - offset) :]
        size += len(data)
        read.add(name, data, at)
    if flush:
        read.finish()
    return True


def _level(text: str) -> str | None:
    found = _LEVEL.search(text[:200])
    if found is None:
        return None
    return "ERROR" if found[1] else "WARN" if found[2] else "INFO"
