"""Nodes' measurements: taken as small rows, packed into blocks, rolled up by the day; read back as one series.

    TelemetryFrame   one batch as a node sent it, only ever added           the last ten minutes or so
    TelemetryBlock   ten minutes of a node's samples: as sent for an hour, as means over 10 s for at least a day
                     (`telemetry_packing`)
    TelemetryMean    a day of a node's five-minute means, and hourly ones   90 days (`telemetry_packing`)

A packed value is a sequence of frames: four bytes of length, then zlib over JSON. Readers see all three as batches.
"""

from __future__ import annotations

import json
import logging
import time
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from portal.cluster.last_sample import live_sample, memory_share, unused_gpus
from portal.cluster.models import Node, TelemetryBlock, TelemetryFrame, TelemetryMean
from portal.cluster.services.contact import node_seen
from portal.foundation.bulk import among
from portal.foundation.events.following import node_measured

log = logging.getLogger(__name__)

BLOCK_S = 600
TEN_S = 10
BATCH_S = 30
"""Agents send every five seconds; after a while without the portal they have more to send at once."""
MEAN_S, HOUR_S, DAY_S = 300, 3600, 86_400
BLOCKS_IN_FULL = 200
"""With more nodes times ten minutes the five-minute means are read: unpacking each second of 100 nodes takes minutes."""
LEVEL, QUICK = 6, 1
"""How hard zlib tries: QUICK for values that live for an hour."""
GROUPS = {"gpu": "gpus", "attempt": "attempts"}
"""How a mean's name begins, and where a batch has the series: `gpu0.utilisation` is `batch["gpus"]["0"]["utilisation"]`."""

_told_at_s: float | None = None


def telemetry_store(*, node: Node, batch: Mapping[str, Any]) -> None:
    """Keep one batch (the wire's telemetry message); the same one again changes nothing.

    Pages hear of it once a second for all nodes (`portal.pages.dashboard.board.ticker`).
    """
    start = datetime.fromtimestamp(batch["start"], UTC)
    packed = frame_pack({name: batch[name] for name in batch if name != "boot_id"})
    with transaction.atomic():
        TelemetryFrame.objects.bulk_create([TelemetryFrame(node=node, at=start, packed=packed)], ignore_conflicts=True)
        live = {**live_sample(batch), "unused": unused_gpus(batch, node.live or {})}
        node_seen(node=node, live=live, memory_share=memory_share(batch))
    node_measured(node.name)


def frame_pack(value: Any, *, level: int = LEVEL) -> bytes:
    """Return a value of JSON as one frame."""
    packed = zlib.compress(json.dumps(value, separators=(",", ":")).encode(), level)
    return len(packed).to_bytes(4, "big") + packed


def frames_of(packed: bytes) -> Iterator[Any]:
    """Yield the values of the frames in their order, up to the first that is damaged: packing and rolling up go on."""
    at = 0
    while at + 4 <= len(packed):
        length = int.from_bytes(packed[at : at + 4], "big")
        try:
            value = json.loads(zlib.decompress(packed[at + 4 : at + 4 + length]))
        except (zlib.error, ValueError) as error:  # zlib's checksum finds any damage to the packed bytes
            _damage_tell(len(packed) - at, error)
            return
        yield value
        at += 4 + length


def _damage_tell(left: int, error: Exception) -> None:
    """Say it in the log once a minute: a page asks each second."""
    global _told_at_s  # noqa: PLW0603 - the process's log
    now_s = time.monotonic()
    if _told_at_s is None or now_s - _told_at_s >= 60:
        _told_at_s = now_s
        log.warning("Stored telemetry cannot be read (%s); the last %d bytes of a row are left out.", error, left)


def block_start(at_s: float) -> float:
    """Return when the block of a moment begins (Unix seconds)."""
    return at_s // BLOCK_S * BLOCK_S


def batches_between(
    *, node_ids: Iterable[int], since: datetime, until: datetime, step_s: float = 1.0, attempts: bool = True
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (node id, batch) of the measurements in blocks that touch an interval, however they are stored.

    A batch is `{start, period_s, count, gpus, host, attempts}` as the wire has it. What was rolled up comes with a period
    of 300 s, what is over an hour old with one of 10 s; from a `step_s` of 10 or 300 on, all that is in blocks does: a
    reader of days need not unpack each second. Without `attempts` and from 3600 on, what was rolled up comes by the hour.
    A GPU's `utilisation` then has `utilisation.low` and `utilisation.high` beside it.
    """
    ids = list(node_ids)
    from_block = since - timedelta(seconds=BLOCK_S)
    # Measurements move from the first of the three to the last meanwhile: read in this order, nothing is missed.
    recent: dict[int, list[Any]] = defaultdict(list)
    frames = TelemetryFrame.objects.filter(node_id__in=ids, at__gt=from_block, at__lte=until).order_by("at")
    for node_id, packed in frames.values_list("node_id", "packed"):
        recent[node_id] += frames_of(bytes(packed))
    blocks = TelemetryBlock.objects.filter(node_id__in=ids, start_at__gt=from_block, start_at__lte=until)
    # The first of these that a block has. One of a version before has only samples, read by a query of their own.
    forms = ("packed", "tens") if step_s < TEN_S else ("tens", "packed") if step_s < MEAN_S else ("means", "packed")
    read = blocks.defer(*({"packed", "tens", "means"} - set(forms[: 1 + (forms[0] == "packed")])))
    for block in read.order_by("start_at").iterator():
        start_s = block.start_at.timestamp()
        found = list(frames_of(bytes(next((own for name in forms if (own := getattr(block, name))), b""))))
        if own := recent.get(block.node_id):  # packed between the two looks
            recent[block.node_id] = [each for each in own if not _covered(each, found, start_s)]
        for batch in found:
            yield block.node_id, _as_batch(batch, block.start_at) if "series" in batch else batch
    yield from ((node_id, batch) for node_id, batches in recent.items() for batch in batches)
    slot_s = HOUR_S if step_s >= HOUR_S and not attempts else MEAN_S
    yield from _rolled_up(ids, since, until, slot_s)


def batches_recent(
    *, node_ids: Iterable[int], since: datetime, until: datetime
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (node id, batch) of the last minutes' measurements that are not packed yet, in one query.

    For readers of many nodes at once who can do without a batch that began longer than `BATCH_S` before `since`.
    """
    frames = TelemetryFrame.objects.filter(
        node_id__in=among(node_ids), at__gt=since - timedelta(seconds=BATCH_S), at__lte=until
    )
    for node_id, packed in frames.values_list("node_id", "packed").iterator():
        for batch in frames_of(bytes(packed)):
            yield node_id, batch


def too_much_in_full(*, nodes: int, since: datetime, until: datetime) -> bool:
    """Say whether this number of nodes over that time is too much to be read by the second."""
    return nodes * (until - since).total_seconds() / BLOCK_S > BLOCKS_IN_FULL


def rolled_up_between(*, node_ids: Iterable[int], since: datetime, until: datetime) -> bool:
    """Say whether some day of an interval is kept as five-minute means only."""
    return _days(list(node_ids), since, until).exists()


def _covered(batch: Mapping[str, Any], found: list[dict[str, Any]], start_s: float) -> bool:
    """Say whether a block that was read has this batch already. Means stand for the whole block, which begins then."""
    for each in found:
        first = each.get("start", start_s)
        if first <= batch["start"] < first + each.get("count", BLOCK_S) * each.get("period_s", 1.0):
            return True
    return False


def _days(ids: list[int], since: datetime, until: datetime) -> QuerySet[TelemetryMean]:
    from_day = since - timedelta(seconds=DAY_S)
    return TelemetryMean.objects.filter(node_id__in=ids, start_at__gt=from_day, start_at__lte=until)


def _rolled_up(ids: list[int], since: datetime, until: datetime, slot_s: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the measurements that are kept by the day, by the hour where the reader asks and the day has it."""
    for day in _days(ids, since, until).defer(*(("hours",) if slot_s == MEAN_S else ("packed",))).order_by("start_at"):
        by_hour = slot_s == HOUR_S and bool(day.hours)
        own_s = HOUR_S if by_hour else MEAN_S
        for means in frames_of(bytes(day.hours if by_hour else day.packed)):
            first = max(0, int((since - day.start_at).total_seconds() // own_s))
            stop = min(DAY_S // own_s, int((until - day.start_at).total_seconds() // own_s) + 1)
            if batch := _as_batch(means, day.start_at, first=first, stop=stop, slot_s=own_s):
                yield day.node_id, batch


def _as_batch(
    means: Mapping[str, Any], start_at: datetime, *, first: int = 0, stop: int = BLOCK_S // MEAN_S, slot_s: int = MEAN_S
) -> dict[str, Any]:
    """Return means (`telemetry_packing.means_of`) as a batch of the slots first..stop-1, None where nothing was measured."""
    batch: dict[str, Any] = {
        "start": start_at.timestamp() + first * slot_s,
        "period_s": float(slot_s),
        "count": stop - first,
        "gpus": {},
        "host": {},
        "attempts": {},
    }
    for name, (begins, values) in means["series"].items():
        if begins >= stop or begins + len(values) <= first:
            continue
        row = [values[slot - begins] if 0 <= slot - begins < len(values) else None for slot in range(first, stop)]
        where, measure = name.split(".", 1)
        group = next((word for word in GROUPS if where.startswith(word)), None)
        if group is None:
            batch["host"][measure] = row
        else:
            batch[GROUPS[group]].setdefault(where.removeprefix(group), {})[measure] = row
    return batch
