"""What nodes measure: stored packed (a row a node for ten minutes), read as series, rolled up after a day, expired.

A block is a sequence of frames, one a batch: four bytes of length, then zlib over the batch's JSON. Appending never
decodes what is there.
"""

from __future__ import annotations

import json
import zlib
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from statistics import fmean
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.utils import timezone

from portal.cluster.models import Node, TelemetryBlock, TelemetryMean
from portal.events.services import live_event

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

BLOCK_S = 600
MEAN_S = 300
KEEP_BLOCKS = timedelta(days=1)
KEEP_MEANS = timedelta(days=90)


def telemetry_store(*, node: Node, batch: Mapping[str, Any]) -> None:
    """Append one batch (the wire's telemetry message) and tell the pages its last sample."""
    start = datetime.fromtimestamp(batch["start"], UTC)
    block_at = datetime.fromtimestamp(batch["start"] // BLOCK_S * BLOCK_S, UTC)
    frame = zlib.compress(json.dumps({k: batch[k] for k in batch if k != "boot_id"}).encode(), 6)
    frame = len(frame).to_bytes(4, "big") + frame
    with transaction.atomic():
        row, created = TelemetryBlock.objects.select_for_update().get_or_create(
            node=node, start_at=block_at, defaults={"packed": frame}
        )
        if not created:
            TelemetryBlock.objects.filter(pk=row.pk).update(packed=bytes(row.packed) + frame)
        Node.objects.filter(pk=node.pk).update(live=live_sample(batch), last_contact_at=timezone.now())
    live_event(stream="cluster", topic="telemetry", node=node.name, at=start.isoformat())


def live_sample(batch: Mapping[str, Any]) -> dict[str, Any]:
    """Return the last sample of a batch: `{"at", "gpus": {index: {measure: value}}, "host": {measure: value}}`."""

    def last(series: Mapping[str, Any]) -> dict[str, float]:
        return {
            name: values[-1]
            for name, values in series.items()
            if isinstance(values, list) and values and values[-1] is not None
        }

    return {
        "at": batch["start"] + (batch["count"] - 1) * batch["period_s"],
        "gpus": {index: last(series) for index, series in (batch.get("gpus") or {}).items()},
        "host": last(batch.get("host") or {}),
        "attempts": {key: last(series) for key, series in (batch.get("attempts") or {}).items()},
    }


def frames_of(packed: bytes) -> Iterator[dict[str, Any]]:
    """Yield a block's batches in the order they came."""
    at = 0
    while at + 4 <= len(packed):
        length = int.from_bytes(packed[at : at + 4], "big")
        yield json.loads(zlib.decompress(packed[at + 4 : at + 4 + length]))
        at += 4 + length


def batches_between(*, node_ids: Iterable[int], since: datetime, until: datetime) -> Iterator[tuple[int, dict]]:
    """Yield (node id, batch) of the blocks that touch an interval, in time order of their blocks."""
    blocks = TelemetryBlock.objects.filter(
        node_id__in=list(node_ids), start_at__gt=since - timedelta(seconds=BLOCK_S), start_at__lte=until
    ).order_by("start_at")
    for block in blocks.iterator():
        for batch in frames_of(bytes(block.packed)):
            yield block.node_id, batch


def telemetry_roll_up() -> int:
    """Turn blocks older than a day into five-minute means, expire old means; return how many blocks went."""
    old = TelemetryBlock.objects.filter(start_at__lt=timezone.now() - KEEP_BLOCKS)
    count = 0
    for block in old.iterator():
        with transaction.atomic():
            for start, means in _block_means(block).items():
                TelemetryMean.objects.get_or_create(
                    node_id=block.node_id, start_at=datetime.fromtimestamp(start, UTC), defaults={"means": means}
                )
            block.delete()
        count += 1
    TelemetryMean.objects.filter(start_at__lt=timezone.now() - KEEP_MEANS).delete()
    return count


def _block_means(block: TelemetryBlock) -> dict[int, dict[str, float]]:
    """Return {start of five minutes: {"gpu0.utilisation": mean, "host.cpu_cores": mean, ...}}."""
    samples: dict[int, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for batch in frames_of(bytes(block.packed)):
        series = {f"host.{name}": values for name, values in (batch.get("host") or {}).items()}
        for index, measures in (batch.get("gpus") or {}).items():
            series |= {f"gpu{index}.{name}": values for name, values in measures.items()}
        for name, values in series.items():
            for position, value in enumerate(values if isinstance(values, list) else ()):
                if isinstance(value, (int, float)):
                    slot = int((batch["start"] + position * batch["period_s"]) // MEAN_S * MEAN_S)
                    samples[slot][name].append(value)
    return {slot: {name: round(fmean(values), 3) for name, values in by.items()} for slot, by in samples.items()}
