"""Take the output of attempts, piece by piece, each only at the stored length."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from portal.environment import env
from portal.errors import BerthError, NotFound
from portal.events.followers import LogPiece, log_came
from portal.events.services import live_event
from portal.jobs.models import Allocation, LogChunk

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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
    next_offset, full, grown = _append(
        node=node, key=key, epoch=epoch, rank=rank, stream=stream, offset=offset, data=data
    )
    if grown is not None:
        live_event(stream=f"job:{grown}", topic="log", id=grown)
    return next_offset, full


def logs_append(*, node: Node, pieces: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Append what several logs have to say, in one transaction: the disk is synced once. Each is taken or not by itself.

    A piece: `attempt` (the key), `epoch`, `rank`, `stream`, `offset`, `data`. Returns an answer for each, in this order.
    """
    answers, grown = [], set()
    with transaction.atomic():
        for piece in pieces:
            answer, job_id = _answer(node, piece)
            answers.append(answer)
            grown.add(job_id)
    for job_id in grown - {None}:  # when it can be read
        live_event(stream=f"job:{job_id}", topic="log", id=job_id)
    return answers


def _answer(node: Node, piece: Mapping[str, Any]) -> tuple[dict[str, Any], int | None]:
    """Take one piece; return what the agent hears of it, and the job whose log grew."""
    name = {field: piece[field] for field in ("attempt", "epoch", "rank", "stream")}
    given = {
        "key": piece["attempt"],
        **{field: piece[field] for field in ("epoch", "rank", "stream", "offset", "data")},
    }
    try:
        next_offset, full, job_id = _append(node=node, **given)
    except OffsetMismatch as error:
        return {**name, "next_offset": error.next_offset, "full": False, "code": error.code}, None
    except NotFound:
        return {**name, "next_offset": 0, "full": False, "code": "unknown_part"}, None
    return {**name, "next_offset": next_offset, "full": full, "code": None}, job_id


def _append(
    *, node: Node, key: str, epoch: int, rank: int, stream: str, offset: int, data: bytes
) -> tuple[int, bool, int | None]:
    """Append a chunk as `log_append` does; return besides the job whose log grew."""
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
        return length, True, None
    if offset != length:
        raise OffsetMismatch(length)
    data = data[: limit - length]
    if data:
        piece = LogPiece(job_id, attempt_id, rank, stream, data, patterns)
        _store(piece, offset)
    return length + len(data), length + len(data) >= limit, job_id if data else None


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
