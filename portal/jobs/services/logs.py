"""Take the output of attempts, piece by piece, each only at the stored length."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import IntegrityError, transaction
from django.db.models import F, Max
from django.utils import timezone

from portal.environment import env
from portal.errors import BerthError, NotFound
from portal.events.followers import LogPiece, log_came
from portal.events.services import live_event
from portal.jobs.models import Allocation, LogChunk

if TYPE_CHECKING:
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
    return chunks.aggregate(end=Max(F("offset") + F("length")))["end"] or 0


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
    part = (
        Allocation.objects.filter(attempt__key=key, attempt__epoch=epoch, rank=rank, node=node)
        .values_list("attempt_id", "attempt__job_id", "attempt__job__log_matches")
        .first()
    )
    if part is None:
        raise NotFound("part of an attempt on this node")
    attempt_id, job_id, patterns = part
    limit = env("BERTH_LOG_LIMIT_MIB") * MIB
    length = log_length(attempt_id=attempt_id, rank=rank, stream=stream)
    if length >= limit:
        return length, True
    if offset != length:
        raise OffsetMismatch(length)
    data = data[: limit - length]
    if data:
        piece = LogPiece(job_id, attempt_id, rank, stream, data, patterns)
        _store(piece, offset)
        live_event(stream=f"job:{job_id}", topic="log", id=job_id)
    return length + len(data), length + len(data) >= limit


def _store(piece: LogPiece, offset: int) -> None:
    """Store a piece; what it has of the job's `log_matches` is noted with it, so that none is noted twice or never."""
    where: dict[str, Any] = {"attempt_id": piece.attempt_id, "rank": piece.rank, "stream": piece.stream}
    try:
        with transaction.atomic():
            LogChunk.objects.create(**where, offset=offset, length=len(piece.data), data=piece.data, at=timezone.now())
            if piece.patterns:
                log_came(piece)
    except IntegrityError as error:
        raise OffsetMismatch(log_length(**where)) from error
