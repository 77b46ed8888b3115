"""Roll up: a node's day of blocks becomes one row of five-minute and hourly means, kept for 90 days.

The means were made when the blocks were packed, so a day is put together from small rows. One transaction a node and day
writes the row and deletes the blocks.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from statistics import fmean
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.utils import timezone

from portal.cluster.models import TelemetryBlock, TelemetryMean
from portal.cluster.telemetry import BLOCK_S, DAY_S, HOUR_S, MEAN_S, frame_pack, frames_of
from portal.cluster.telemetry_packing import means_of, row_of, telemetry_pack

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

KEEP_BLOCKS = timedelta(days=1)
KEEP_MEANS = timedelta(days=90)


def telemetry_roll_up(*, now: datetime | None = None) -> int:
    """Roll up the days whose blocks are all older than a day, expire old means; return how many blocks went."""
    now = now or timezone.now()
    telemetry_pack(now=now)
    kept_from = now - KEEP_BLOCKS
    until = kept_from.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    old = TelemetryBlock.objects.filter(start_at__lt=until)
    count = 0
    for node_id in list(old.order_by("node_id").values_list("node_id", flat=True).distinct()):
        days = defaultdict(list)
        for pk, start_at in old.filter(node_id=node_id).order_by("start_at").values_list("pk", "start_at"):
            days[start_at.timestamp() // DAY_S * DAY_S].append(pk)
        count += sum(_day_roll_up(node_id, datetime.fromtimestamp(day_s, UTC), ids) for day_s, ids in days.items())
    TelemetryMean.objects.filter(start_at__lt=now - KEEP_MEANS - timedelta(seconds=DAY_S)).delete()
    return count


def _day_roll_up(node_id: int, day: datetime, block_ids: Sequence[int]) -> int:
    with transaction.atomic():
        blocks = list(TelemetryBlock.objects.select_for_update().filter(pk__in=block_ids).order_by("start_at"))
        before = TelemetryMean.objects.select_for_update().filter(node_id=node_id, start_at=day).first()
        parts = [(0, means) for means in (frames_of(bytes(before.packed)) if before else ())]
        parts += [
            (int((block.start_at - day).total_seconds() // MEAN_S), means)
            for block in blocks
            for means in _means(block)
        ]
        whole = day_of(parts)
        packed = {"packed": frame_pack(whole), "hours": frame_pack(hours_of(whole))}
        TelemetryMean.objects.update_or_create(node_id=node_id, start_at=day, defaults=packed)
        TelemetryBlock.objects.filter(pk__in=[block.pk for block in blocks]).delete()
    return len(blocks)


def _means(block: TelemetryBlock) -> Iterable[dict[str, Any]]:
    if block.means:
        return frames_of(bytes(block.means))
    start_s = block.start_at.timestamp()  # a block of a version before
    return [means_of(frames_of(bytes(block.packed)), start_s=start_s, slots=BLOCK_S // MEAN_S)]


def day_of(parts: Iterable[tuple[int, Mapping[str, Any]]]) -> dict[str, Any]:
    """Return the means of parts of a day, each with the slot at which it begins, as those of the day."""
    known: dict[str, dict[int, float]] = defaultdict(dict)
    for offset, means in parts:
        for name, (first, values) in means["series"].items():
            known[name] |= {offset + first + k: value for k, value in enumerate(values) if value is not None}
    series = {}
    for name, by in known.items():
        first = min(by)
        series[name] = [first, [by.get(slot) for slot in range(first, max(by) + 1)]]
    return {"series": series}


def hours_of(day: Mapping[str, Any]) -> dict[str, Any]:
    """Return a day's means by the hour, without those of attempts: a plot of 90 days need not unpack what it cannot show."""
    series = {}
    for name, (first, values) in day["series"].items():
        if name.startswith("attempt"):
            continue
        by: dict[int, list[float]] = defaultdict(list)
        for slot, value in enumerate(values, first):
            if value is not None:
                by[slot * MEAN_S // HOUR_S].append(value)
        pick = min if name.endswith(".low") else max if name.endswith(".high") else fmean
        series[name] = row_of({hour: pick(own) for hour, own in by.items()})
    return {"series": series}
