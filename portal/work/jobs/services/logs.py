"""Take the output of attempts, piece by piece, each only at the stored length."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from django.db import IntegrityError, transaction
from django.utils import timezone

from portal.foundation.environment import env
from portal.foundation.errors import BerthError, NotFound
from portal.foundation.events.followers import LogPiece, log_came
from portal.foundation.events.services import live_event
from portal.work.jobs.models import Allocation, LogChunk

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from portal.cluster.models import Node

CHUNK_BYTES = 256 * 1024
MIB = 1024 * 1024


class OffsetMismatch(BerthError):
    """The sender must go on from `next_offset`."""

    def __init__(self, next_offset: int) -> None:
        super().__init__("offset_mismatch", f"The stored length is {next_offset}; send from there.", status=409)
        self.next_offset = next_offset


def log_length(*, attempt_id: int, rank: int, stream: str) -> int:
    chunks = LogChunk.objects.filter(attempt_id=attempt_id, rank=rank, stream=stream)
    last = chunks.order_by("-offset").values_list("offset", "length").first()  # they lie end to end
    return sum(last) if last else 0


def log_append(
    *, node: Node, key: str, epoch: int, rank: int, stream: str, offset: int, data: bytes
) -> tuple[int, bool]:
    """Append a chunk. Returns the next offset and whether the log limit is reached.

    Raises NotFound when the part is not this node's, OffsetMismatch when `offset` is not the stored length.
    """
    if stream not in {"stdout", "stderr"}:
        raise BerthError("invalid", "The stream is stdout or stderr.", field="stream")
    if len(data) > CHUNK_BYTES:
        raise BerthError("too_long", f"Send at most {CHUNK_BYTES} bytes at once.", status=413)
    part = _parts(node, [key]).get((key, epoch, rank))
    if part is None:
        raise NotFound("part of an attempt on this node")
    next_offset, full, grown = _append(part, stream, offset, data)
    if grown:
        live_event(stream=f"job:{part.job_id}", topic="log", id=part.job_id)
    return next_offset, full


def logs_append(*, node: Node, pieces: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Append what several logs have to say, in one transaction: the disk is synced once. Each is taken or not by itself.

    A piece: `attempt` (the key), `epoch`, `rank`, `stream`, `offset`, `data`. Returns an answer for each, in this order.
    """
    answers, grown = [], set()
    with transaction.atomic():
        parts = _parts(node, {piece["attempt"] for piece in pieces})
        for piece in pieces:
            part = parts.get((piece["attempt"], piece["epoch"], piece["rank"]))
            next_offset, full, code = 0, False, "unknown_part" if part is None else None
            if part is not None:
                try:
                    next_offset, full, came = _append(part, piece["stream"], piece["offset"], piece["data"])
                    grown |= {part.job_id} if came else set()
                except OffsetMismatch as error:
                    next_offset, code = error.next_offset, error.code
            name = {field: piece[field] for field in ("attempt", "epoch", "rank", "stream")}
            answers.append({**name, "next_offset": next_offset, "full": full, "code": code})
    for job_id in grown:  # now it can be read
        live_event(stream=f"job:{job_id}", topic="log", id=job_id)
    return answers


class _Part(NamedTuple):
    attempt_id: int
    job_id: int
    rank: int
    patterns: Any


def _parts(node: Node, keys: Iterable[str]) -> dict[tuple[str, int, int], _Part]:
    """Return this node's parts of these attempts, by key, epoch and rank."""
    rows = Allocation.objects.filter(attempt__key__in=keys, node=node).values_list(
        "attempt__key", "attempt__epoch", "rank", "attempt_id", "attempt__job_id", "attempt__job__log_matches"
    )
    return {row[:3]: _Part(row[3], row[4], row[2], row[5]) for row in rows}


def _append(part: _Part, stream: str, offset: int, data: bytes) -> tuple[int, bool, bool]:
    """Append a chunk; return the next offset, whether the log limit is reached, and whether the log grew."""
    limit = env("BERTH_LOG_LIMIT_MIB") * MIB
    length = log_length(attempt_id=part.attempt_id, rank=part.rank, stream=stream)
    if length >= limit:
        return length, True, False
    if offset != length:
        raise OffsetMismatch(length)
    data = data[: limit - length]
    if data:
        _store(LogPiece(part.job_id, part.attempt_id, part.rank, stream, data, part.patterns), offset)
    return length + len(data), length + len(data) >= limit, bool(data)


def _store(piece: LogPiece, offset: int) -> None:
    """Store a piece; its hits of the job's `log_matches` are noted with it, so that none is noted twice or never."""
    where: dict[str, Any] = {"attempt_id": piece.attempt_id, "rank": piece.rank, "stream": piece.stream}
    try:
        with transaction.atomic():
            LogChunk.objects.create(**where, offset=offset, length=len(piece.data), data=piece.data, at=timezone.now())
            if piece.patterns:
                log_came(piece=piece)
    except IntegrityError as error:
        raise OffsetMismatch(log_length(**where)) from error
