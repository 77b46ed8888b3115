"""The log viewer's lines: both streams of a part in the order they came, read on from a cursor.

The cursor is `lines.stdout.stderr`: how many lines were given, and up to which byte of each stream. The text behind the
last newline is given as `open`, as it is now, and again until it is whole. A look reads a bounded part of the log.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from portal.foundation.errors import BerthError
from portal.work.jobs.log_lines import line_shown
from portal.work.jobs.log_reading import STREAMS, BothStreams, Cursor, log_part
from portal.work.jobs.models import LogChunk
from portal.work.jobs.states import FINAL

if TYPE_CHECKING:
    from portal.work.jobs.log_reading import Line
    from portal.work.jobs.models import Job

LINES_A_PAGE = 2000
TAIL_BYTES = 512 * 1024
"""A first read starts so far before the end of each stream; earlier lines are in the download."""
LINE_CHARS = 8000
LOOK_BYTES = 1024 * 1024
"""A look ends before the line that exceeds this; the next one goes on there."""
UNCOUNTED = "-"
"""In a cursor: the first read began within the log, so nobody counted the lines before."""
_CURSOR = re.compile(rf"(\d{{1,15}}|{UNCOUNTED})\.(\d{{1,15}})\.(\d{{1,15}})\Z", re.ASCII)


def log_page(*, job: Job, attempt: int | None, rank: int, stream: str, cursor: str) -> dict[str, Any]:
    """Return `{"lines", "open", "next", "size_bytes", "ended", "cut"}` from the cursor on ("" = the tail).

    `cut`: the log's beginning is left out, and its lines have no numbers.
    """
    if stream and stream not in STREAMS:
        raise BerthError("invalid", "The stream is stdout or stderr, or empty for both.", field="stream")
    part = log_part(job=job, epoch=attempt, rank=rank, stream="stdout")
    if part is None:
        ended = job.state in FINAL
        return {"lines": [], "open": [], "next": "", "size_bytes": None, "ended": ended, "cut": False}
    log = BothStreams(part.attempt, rank, [stream] if stream else STREAMS)
    count, start = _cursor_read(cursor) if cursor else _tail(log)
    ended = part.attempt.ended_at is not None
    look = log.read(start, limit=LOOK_BYTES, lines=LINES_A_PAGE, flush=ended)
    shown = [line for line in look.lines if not line.cut.redrawn]
    following = None if count is None else count + len(shown)
    size = log.end()
    return {
        "lines": _rows(count, shown),
        "open": _rows(following, look.open),
        "next": f"{UNCOUNTED if following is None else following}.{look.end.stdout}.{look.end.stderr}",
        "size_bytes": size.stdout + size.stderr,
        "ended": ended and look.is_all,
        "cut": following is None,
    }


def _rows(count: int | None, lines: list[Line]) -> list[dict[str, Any]]:
    return [_row(None if count is None else count + place, line) for place, line in enumerate(lines, 1)]


def _row(number: int | None, line: Line) -> dict[str, Any]:
    text = line_shown(line.cut.data)[:LINE_CHARS]
    return {"n": number, "at": line.at.isoformat(), "stream": line.stream, "text": text}


def _tail(log: BothStreams) -> tuple[int | None, Cursor]:
    start = log.tail_at(Cursor(), limit=TAIL_BYTES)
    return None if start.stdout or start.stderr else 0, start


def _cursor_read(cursor: str) -> tuple[int | None, Cursor]:
    found = _CURSOR.match(cursor)
    if found is None:
        raise BerthError("invalid", "Send the cursor that the last answer gave as `next`.", field="offset")
    return None if found[1] == UNCOUNTED else int(found[1]), Cursor(int(found[2]), int(found[3]))


def log_parts(*, job: Job, epoch: int | None, profile: bool = False) -> list[tuple[int, str]]:
    """Return the (rank, stream) pairs that an attempt, or a profile, wrote to."""
    part = log_part(job=job, epoch=epoch, rank=0, stream="stdout", profile=profile)
    if part is None:
        return []
    rows = LogChunk.objects.filter(attempt=part.attempt).order_by("rank", "-stream")
    return list(rows.values_list("rank", "stream").distinct())
