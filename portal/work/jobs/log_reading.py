"""Read the output of attempts: one stream by byte offset, or the lines of both in the order in which their pieces came.

A reader goes on where it stopped. A look at lines reads `size` bytes of any log, the beginning of a line of each stream, and
one piece. The cursor counts the bytes of each stream, so that nothing is lost or doubled whichever
piece is stored first. A line that has not ended is `open`, as it stands, and is read again with its rest.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from django.db.models import Q, Sum

from portal.foundation.errors import BerthError, NotFound
from portal.work.jobs.log_lines import LINE_BYTES, Cut, Cutter, line_shown, utf8_whole
from portal.work.jobs.models import Attempt, Job, LogChunk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from django.db.models import QuerySet


STREAMS = ("stdout", "stderr")


@dataclass(frozen=True)
class LogPart:
    """One stream of one node's part of an attempt."""

    attempt: Attempt
    rank: int
    stream: str

    @property
    def chunks(self) -> QuerySet[LogChunk]:
        return LogChunk.objects.filter(attempt=self.attempt, rank=self.rank, stream=self.stream).order_by("offset")

    def length(self) -> int:
        """Return how many bytes are stored. Chunks follow one another without gaps."""
        last = self.chunks.order_by("-offset").values_list("offset", "length").first()
        return sum(last) if last else 0

    def piece_at(self, offset: int) -> int:
        """Return where the piece begins that has the byte at `offset`; that of the last one when it is not stored yet."""
        found = self.chunks.filter(offset__lte=offset).order_by("-offset").values_list("offset", flat=True).first()
        return found or 0


def log_part(*, job: Job, epoch: int | None, rank: int, stream: str, profile: bool = False) -> LogPart | None:
    """Return a part of the attempt (or the `profile`) `epoch` (None: the last), None while there is none. Raises NotFound."""
    attempts = (job.attempts.profiles() if profile else job.attempts.runs()).order_by("-epoch")
    attempt = (attempts if epoch is None else attempts.filter(epoch=epoch)).first()
    if attempt is None:
        if epoch is None:
            return None
        raise NotFound("attempt of this job")
    if rank and not attempt.allocations.filter(rank=rank).exists():
        raise NotFound("part of this attempt")
    return LogPart(attempt, rank, stream)


def log_bytes(part: LogPart, *, offset: int, limit: int) -> bytes:
    """Return up to `limit` bytes from `offset` on."""
    wanted = part.chunks.filter(offset__gte=part.piece_at(offset), offset__lt=offset + limit)
    rows = wanted.values_list("offset", "data").iterator(chunk_size=8)
    return b"".join(bytes(data)[max(offset - start, 0) :] for start, data in rows)[:limit]


def offset_since(part: LogPart, *, since: datetime) -> int:
    """Return the offset of the first bytes that arrived at `since` or later; the length when none did."""
    first = part.chunks.filter(at__gte=since).values_list("offset", flat=True).first()
    return part.length() if first is None else first


def offset_of_tail(part: LogPart, *, limit: int, lines: int | None = None) -> int:
    """Return where the last `lines` lines begin, or all whole ones, looking back at most `limit` bytes.

    A line that began farther back is left out, unless it is all there is: then its last bytes are the tail.
    """
    end = part.length()
    start = max(0, end - limit)
    data = log_bytes(part, offset=start, limit=end - start)
    at = len(data) - 1 if data.endswith(b"\n") else len(data)
    for _ in range(lines or 0):
        at = data.rfind(b"\n", 0, at)
        if at < 0:
            break
    else:
        if lines is not None:
            return start + at + 1
    first = data.find(b"\n") + 1
    if not 0 < first < len(data):  # behind the bytes of a character that began before
        first = next((at for at, byte in enumerate(data[:4]) if byte & 0b1100_0000 != 0b1000_0000), 0)
    return start and start + first


def log_sizes(job: Job) -> list[dict[str, int | str]]:
    """Return the logs there are: attempt, rank, stream and bytes of each."""
    rows = LogChunk.objects.filter(attempt__job=job, attempt__kind="run").values("attempt__epoch", "rank", "stream")
    sums = rows.annotate(bytes=Sum("length")).order_by("-attempt__epoch", "rank", "stream")
    return [
        {"attempt": row["attempt__epoch"], "rank": row["rank"], "stream": row["stream"], "bytes": row["bytes"]}
        for row in sums
    ]


def lines_of_tail(part: LogPart, *, limit: int) -> list[str]:
    """Return the lines at the end of a part, as they are shown, looking back at most `limit` bytes."""
    start = offset_of_tail(part, limit=limit)
    cutter = Cutter()
    cuts = list(cutter.cut(log_bytes(part, offset=start, limit=limit)))
    shown = [line_shown(cut.data) for cut in cuts if not cut.redrawn]
    return [*shown, line_shown(cutter.rest)]


def last_line(*, job: Job) -> str | None:
    """Return the last line that a job's last attempt printed, on stderr if it printed any there; None without any."""
    chunks = LogChunk.objects.filter(attempt__job=job, attempt__kind="run", attempt__epoch=job.epoch)
    for stream in reversed(STREAMS):
        last = chunks.filter(stream=stream).order_by("-offset").select_related("attempt").defer("data").first()
        lines = lines_of_tail(LogPart(last.attempt, last.rank, stream), limit=LINE_BYTES) if last else []
        if said := [text for line in lines if (text := line.strip())]:
            return said[-1][:200]
    return None


_CURSOR = re.compile(r"(\d{1,15})\.(\d{1,15})(?:\.(\d{1,15})\.(\d{1,15}))?\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Cursor:
    """How many bytes of each stream were read, and how many behind them were seen of a line that had not ended."""

    stdout: int = 0
    stderr: int = 0
    open: tuple[int, int] = (0, 0)

    @classmethod
    def at(cls, offsets: Mapping[str, int]) -> Cursor:
        return cls(offsets.get("stdout", 0), offsets.get("stderr", 0))

    @classmethod
    def of(cls, text: str) -> Cursor:
        """Read a cursor. Raises BerthError when the text is not one."""
        found = _CURSOR.match(text)
        if found is None:
            raise BerthError("invalid", "Send the `next` of the last answer unchanged.", field="cursor")
        return cls(int(found[1]), int(found[2]), (int(found[3] or 0), int(found[4] or 0)))

    def __str__(self) -> str:
        seen = f".{self.open[0]}.{self.open[1]}" if any(self.open) else ""
        return f"{self.stdout}.{self.stderr}{seen}"

    def offsets(self) -> dict[str, int]:
        return {"stdout": self.stdout, "stderr": self.stderr}

    def get(self, stream: str) -> int:
        return int(getattr(self, stream))


class Line(NamedTuple):
    """A line of a stream, and when the piece that ended it came."""

    stream: str
    at: datetime
    cut: Cut


@dataclass
class Look:
    """The lines found up to `end`. `open`: lines that have not ended, as they stand, where all that is stored was read."""

    ends: dict[str, int]
    lines: list[Line] = field(default_factory=list)
    open: list[Line] = field(default_factory=list)
    is_all: bool = False

    def add(self, line: Line) -> None:
        self.lines.append(line)
        self.ends[line.stream] += len(line.cut.data) + line.cut.ended

    @property
    def end(self) -> Cursor:
        seen = {line.stream: len(line.cut.data) for line in self.open}
        return Cursor(self.ends["stdout"], self.ends["stderr"], (seen.get("stdout", 0), seen.get("stderr", 0)))

    def text(self) -> str:
        """Return the lines as they are shown, each with its line feed."""
        shown = (line.cut for line in self.lines if not line.cut.redrawn)
        return "".join(line_shown(cut.data) + "\n" * cut.ended for cut in shown)


@dataclass(frozen=True, slots=True)
class BothStreams:
    """Both streams of one node's part of an attempt, or those named."""

    attempt: Attempt
    rank: int
    streams: Sequence[str] = STREAMS

    def part(self, stream: str) -> LogPart:
        return LogPart(self.attempt, self.rank, stream)

    def end(self) -> Cursor:
        return Cursor.at({stream: self.part(stream).length() for stream in self.streams})

    def since(self, moment: datetime) -> Cursor:
        return Cursor.at({stream: offset_since(self.part(stream), since=moment) for stream in self.streams})

    def tail_at(self, start: Cursor, *, limit: int, lines: int | None = None) -> Cursor:
        """Return where the last lines of each stream begin, after the cursor and at most `limit` bytes back."""
        tails = {stream: offset_of_tail(self.part(stream), lines=lines, limit=limit) for stream in self.streams}
        return Cursor.at({stream: max(start.get(stream), offset) for stream, offset in tails.items()})

    def tail(self, start: Cursor, *, lines: int, limit: int, flush: bool) -> Look:
        """Return the last `lines` lines after the cursor, at most `limit` bytes in all."""
        first = self.tail_at(start, lines=lines, limit=limit)
        look = self.read(first, limit=2 * limit + LINE_BYTES, flush=flush)
        kept: list[Line] = []
        room = limit
        for line in reversed(look.lines):
            lines -= line.cut.ended or not kept
            room -= len(line.cut.data) + line.cut.ended
            if lines < 0 or room < 0:
                break
            kept.append(line)
        look.lines = kept[::-1]
        return look

    def read(self, start: Cursor, *, limit: int, flush: bool, lines: int | None = None) -> Look:
        """Read on behind the cursor: up to `limit` bytes, and `lines` lines. `flush`: no more will come."""
        look, room = Look(start.offsets()), limit
        cutters = {stream: Cutter(min(LINE_BYTES, limit)) for stream in self.streams}
        at: dict[str, datetime] = {}
        for stream, came, data in self._pieces(start, limit):
            at[stream] = came
            for cut in cutters[stream].cut(data):
                room -= len(cut.data) + cut.ended
                if (room < 0 and look.lines) or len(look.lines) == lines:
                    return look
                look.add(Line(stream, came, cut))
        look.is_all = True
        rests = [Line(name, at[name], Cut(each.rest)) for name, each in cutters.items() if each.rest]
        if flush:
            for line in rests:
                look.add(line)
        else:
            look.open = [line._replace(cut=Cut(utf8_whole(line.cut.data))) for line in rests]
        return look

    def _pieces(self, start: Cursor, limit: int) -> Iterator[tuple[str, datetime, bytes]]:
        """Yield (stream, when it came, bytes behind the start) in the order in which they came, no more than a look needs."""
        wanted = Q()
        for stream in self.streams:
            begin = start.get(stream)
            until = begin + limit + LINE_BYTES
            wanted |= Q(stream=stream, offset__gte=self.part(stream).piece_at(begin), offset__lte=until)
        rows = LogChunk.objects.filter(wanted, attempt=self.attempt, rank=self.rank).order_by("id")
        for stream, offset, came, data in rows.values_list("stream", "offset", "at", "data").iterator(chunk_size=2):
            if behind := bytes(data)[max(0, start.get(stream) - offset) :]:
                yield stream, came, behind
