"""The log viewer's lines: both streams of a part in the order they came, read on from a cursor.

The cursor is `lines.stdout.stderr`: how many lines were given, and up to which byte of each stream. Only whole lines are
given while the attempt runs; what stands behind the last newline follows when it is whole, or at the end.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from django.db.models import F

from portal.errors import BerthError
from portal.jobs.log_reading import STREAMS, log_part
from portal.jobs.models import LogChunk
from portal.jobs.states import FINAL

if TYPE_CHECKING:
    from portal.jobs.models import Attempt, Job

LINES_A_PAGE = 2000
TAIL_BYTES = 512 * 1024
"""A first read starts so far before the end of each stream; earlier lines are in the download."""
LINE_CHARS = 8000
_CURSOR = re.compile(r"(\d{1,15})\.(\d{1,15})\.(\d{1,15})\Z", re.ASCII)
_LEVEL = re.compile(r"\b(?:(ERROR|CRITICAL|FATAL|Traceback)|(WARN)(?:ING)?|(INFO))\b")


def log_page(*, job: Job, attempt: int | None, rank: int, stream: str, cursor: str) -> dict[str, Any]:
    """Return `{"lines", "next", "size_bytes", "ended"}` from the cursor on ("" = the tail)."""
    if stream and stream not in STREAMS:
        raise BerthError("invalid", "The stream is stdout or stderr, or empty for both.", field="stream")
    part = log_part(job=job, epoch=attempt, rank=rank, stream="stdout")
    if part is None:
        return {"lines": [], "next": "", "size_bytes": None, "ended": job.state in FINAL}
    row, chosen = part.attempt, [stream] if stream else list(STREAMS)
    sizes = _sizes(row, rank)
    count, offsets = _cursor_read(cursor) if cursor else _tail(row, rank, sizes, chosen)
    ended = row.ended_at is not None
    lines = _lines(row, rank, chosen, offsets, flush=ended)[:LINES_A_PAGE]
    shown = []
    for position, (name, end, at, text) in enumerate(lines):
        offsets[name] = end
        shown.append(
            {"n": count + position + 1, "at": at.isoformat(), "level": _level(text), "stream": name, "text": text}
        )
    following = f"{count + len(lines)}.{offsets['stdout']}.{offsets['stderr']}"
    return {
        "lines": shown,
        "next": following,
        "size_bytes": sum(sizes[name] for name in chosen),
        "ended": ended and len(lines) < LINES_A_PAGE,
    }


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


def _lines(
    attempt: Attempt, rank: int, chosen: list[str], offsets: dict[str, int], *, flush: bool
) -> list[tuple[str, int, Any, str]]:
    """Return (stream, end offset, time, text) of the whole lines behind the offsets, in the order they came."""
    lines: list[tuple[str, int, Any, str]] = []
    carry: dict[str, bytes] = dict.fromkeys(STREAMS, b"")
    at_end = dict(offsets)
    last_at: dict[str, Any] = {}
    chunks = LogChunk.objects.filter(attempt=attempt, rank=rank, stream__in=chosen).annotate(
        end=F("offset") + F("length")
    )
    for chunk in chunks.order_by("id").iterator(chunk_size=8):
        if chunk.end <= offsets[chunk.stream]:
            continue
        data = carry[chunk.stream] + bytes(chunk.data)[max(0, offsets[chunk.stream] - chunk.offset) :]
        *whole, carry[chunk.stream] = data.split(b"\n")
        last_at[chunk.stream] = chunk.at
        for piece in whole:
            at_end[chunk.stream] += len(piece) + 1
            lines.append((chunk.stream, at_end[chunk.stream], chunk.at, _text(piece)))
        if len(lines) >= LINES_A_PAGE:
            return lines
    if flush:
        rests = [(name, rest) for name, rest in carry.items() if rest]
        lines += [(name, at_end[name] + len(rest), last_at[name], _text(rest)) for name, rest in rests]
    return lines


def _text(piece: bytes) -> str:
    """Return a line's text; of a line redrawn with carriage returns, what stands at the end."""
    text = piece.decode("utf-8", "replace").rstrip("\r").rsplit("\r", 1)[-1]
    return text[:LINE_CHARS]


def _level(text: str) -> str | None:
    found = _LEVEL.search(text[:200])
    if found is None:
        return None
    return "ERROR" if found[1] else "WARN" if found[2] else "INFO"
