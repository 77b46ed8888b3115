"""Read what attempts wrote, by byte offset, so that a reader can go on where it stopped."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.db.models import F, Max, Sum

from portal.errors import NotFound
from portal.jobs.models import Attempt, Job, LogChunk

if TYPE_CHECKING:
    from datetime import datetime

    from django.db.models import QuerySet

STREAMS = ("stdout", "stderr")
LINE_BYTES = 64 * 1024
"""A line of more bytes is read in pieces: of redraws, only what the last one of a piece begins is kept."""
_CODES = re.compile(
    r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}(?:[@-~]|\Z)|[\]PX^_][^\x07\x1b]{0,512}(?:\x07|\x1b\\)|[ -/]{1,8}[0-~]|[0-OQ-WYZ`-~=>])"
)
_ERASE = re.compile(r"\x1b\[[02]?K")
_HIDDEN = re.compile(r"[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_MOVES = re.compile(r"([\r\b\x00])")


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
        return self.chunks.aggregate(end=Max(F("offset") + F("length")))["end"] or 0


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
    pieces: list[bytes] = []
    size = 0
    wanted = part.chunks.alias(end=F("offset") + F("length")).filter(end__gt=offset)
    for start, data in wanted.values_list("offset", "data").iterator(chunk_size=8):
        piece = bytes(data)[max(offset - start, 0) :]
        pieces.append(piece)
        size += len(piece)
        if size >= limit:
            break
    return b"".join(pieces)[:limit]


def offset_since(part: LogPart, *, since: datetime) -> int:
    """Return the offset of the first bytes that arrived at `since` or later; the length when none did."""
    first = part.chunks.filter(at__gte=since).values_list("offset", flat=True).first()
    return part.length() if first is None else first


def offset_of_tail(part: LogPart, *, lines: int, limit: int) -> int:
    """Return where the last `lines` lines begin, looking back at most `limit` bytes."""
    end = part.length()
    start = max(0, end - limit)
    data = log_bytes(part, offset=start, limit=end - start)
    at = len(data) - 1 if data.endswith(b"\n") else len(data)
    for _ in range(lines):
        at = data.rfind(b"\n", 0, at)
        if at < 0:
            return start
    return start + at + 1


def log_sizes(job: Job) -> list[dict[str, int | str]]:
    """Return what logs there are: attempt, rank, stream and bytes of each."""
    rows = LogChunk.objects.filter(attempt__job=job, attempt__kind="run").values("attempt__epoch", "rank", "stream")
    sums = rows.annotate(bytes=Sum("length")).order_by("-attempt__epoch", "rank", "stream")
    return [
        {"attempt": row["attempt__epoch"], "rank": row["rank"], "stream": row["stream"], "bytes": row["bytes"]}
        for row in sums
    ]


def utf8_whole(data: bytes) -> bytes:
    """Drop an incomplete UTF-8 character at the end: its other bytes have not been read yet."""
    for back in range(1, min(4, len(data) + 1)):
        byte = data[-back]
        if byte & 0b1100_0000 == 0b1000_0000:
            continue
        needed = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return data[:-back] if needed > back else data
    return data


def last_line(*, job: Job, chars: int = 200) -> str | None:
    """Return the last line that a job's last attempt printed, on stderr if it printed any there; None without any."""
    chunks = LogChunk.objects.filter(attempt__job=job, attempt__kind="run", attempt__epoch=job.epoch)
    for stream in reversed(STREAMS):
        last = chunks.filter(stream=stream).order_by("-offset").values_list("data", flat=True)[:2]
        data = b"".join(bytes(each) for each in reversed(last))[-LINE_BYTES:]
        if lines := [text for line in data.split(b"\n") if (text := line_shown(line).strip())]:
            return lines[-1][:chars]
    return None


def line_shown(data: bytes) -> str:
    """Return the text that a line, without its line feed, leaves on a terminal: carriage returns overwrite, codes are dropped."""
    text = data.decode("utf-8", "replace")
    if not _HIDDEN.search(text) and "\r" not in text and "\b" not in text:
        return text
    text = _ERASE.sub("\x00", text.replace("\x00", ""))
    cells: list[str] = []
    at = 0
    for piece in _MOVES.split(_CODES.sub("", text)):
        if piece == "\r":
            at = 0
        elif piece == "\b":
            at = max(0, at - 1)
        elif piece == "\x00":
            del cells[at:]
        else:
            kept = _HIDDEN.sub("", piece)
            cells[at : at + len(kept)] = kept
            at += len(kept)
    return "".join(cells)
