"""Read the output of attempts by byte offset, so that a reader can go on where it stopped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.db.models import Sum

from portal.foundation.errors import NotFound
from portal.work.jobs.models import Attempt, Job, LogChunk
from portal.work.jobs.output.lines import LINE_BYTES, Cutter, line_shown

if TYPE_CHECKING:
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
    return 0 if start == 0 else start + (first if 0 < first < len(data) else _character_at(data))


def _character_at(data: bytes) -> int:
    """Return how many bytes at the beginning belong to a character that began before."""
    return next((at for at, byte in enumerate(data[:4]) if byte & 0b1100_0000 != 0b1000_0000), 0)


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


def last_line(*, job: Job, chars: int = 200) -> str | None:
    """Return the last line that a job's last attempt printed, on stderr if it printed any there; None without any."""
    chunks = LogChunk.objects.filter(attempt__job=job, attempt__kind="run", attempt__epoch=job.epoch)
    for stream in reversed(STREAMS):
        last = chunks.filter(stream=stream).order_by("-offset").select_related("attempt").defer("data").first()
        lines = lines_of_tail(LogPart(last.attempt, last.rank, stream), limit=LINE_BYTES) if last else []
        if said := [text for line in lines if (text := line.strip())]:
            return said[-1][:chars]
    return None
