"""Pack what nodes sent: once a block's ten minutes are over, its frames become one row, with their five-minute means.

Adding a frame to a row of its own costs its own bytes; adding it to a growing block wrote the whole block again each
time (44 MB of Postgres' write-ahead log for a node's hour). Each block is packed in one transaction that also
deletes its frames and fails unless it deleted all of them: a killed run, or two at once, change nothing.
A frame that comes late is packed into its block by the next run.

Roll-up: a node's day of blocks becomes one row of five-minute and hourly means, kept for 90 days. The means were made when
the blocks were packed, so a day is put together from small rows. One transaction a node and day writes the row and deletes
the blocks.
"""

from __future__ import annotations

import logging
import math
import time
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from statistics import fmean
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.db.models import Min
from django.db.models.functions import Length
from django.utils import timezone

from portal.cluster.models import TelemetryBlock, TelemetryFrame, TelemetryMean
from portal.cluster.telemetry import (
    BLOCK_S,
    DAY_S,
    GROUPS,
    HOUR_S,
    MEAN_S,
    QUICK,
    TEN_S,
    block_start,
    frame_pack,
    frames_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence


log = logging.getLogger(__name__)

LATE_S = 60
"""A block is packed when it has been over for this time: the last batches are on their way until then."""

FRAMES_AT_ONCE = 2000
KEEP_SAMPLES = timedelta(hours=1)
"""Samples as sent are kept for this time; their means over TEN_S for the rest of the day."""
ATTEMPTS_KEPT = 256
"""The most attempts of a node and block whose means are kept, those with the most samples first; the log says of more."""

DIGITS = 3
_NUMBERS = {int, float, type(None)}
SPREAD = "utilisation"
"""The measure whose lowest and highest sample are kept beside the mean: plots draw them as a band."""


def telemetry_pack(*, now: datetime | None = None, limit_s: float = math.inf) -> int:
    """Pack the frames of the blocks that are over; return how many blocks were written. The rest waits for the next run."""
    now = now or timezone.now()
    closed = datetime.fromtimestamp(block_start((now - timedelta(seconds=LATE_S)).timestamp()), UTC)
    began_s, count = time.monotonic(), 0
    over = TelemetryFrame.objects.filter(at__lt=closed)
    # The longest waiting comes first: where a run ends before the last node, the next does not begin with the same ones.
    waiting = over.order_by().values("node_id").annotate(oldest=Min("at")).order_by("oldest", "node_id")
    for node_id in list(waiting.values_list("node_id", flat=True)):
        if time.monotonic() - began_s > limit_s:
            break
        rows = list(over.filter(node_id=node_id).order_by("at")[:FRAMES_AT_ONCE])
        blocks = defaultdict(list)
        for row in rows:
            blocks[block_start(row.at.timestamp())].append(row)
        count += sum(_block_pack(node_id, start_s, frames) for start_s, frames in blocks.items())
    return count


def _block_pack(node_id: int, start_s: float, rows: Sequence[TelemetryFrame]) -> bool:
    start_at = datetime.fromtimestamp(start_s, UTC)
    with transaction.atomic():
        gone, _ = TelemetryFrame.objects.filter(pk__in=[row.pk for row in rows]).delete()
        if gone != len(rows):  # another has packed them, or the node is gone
            transaction.set_rollback(True)
            return False
        before = TelemetryBlock.objects.select_for_update().filter(node_id=node_id, start_at=start_at).first()
        kept = bytes(before.packed or before.tens) if before else b""
        batches = merged(batch for each in (kept, *(bytes(row.packed) for row in rows)) for batch in frames_of(each))
        is_thin = before is not None and not before.packed
        values = {
            "packed": b"" if is_thin else b"".join(frame_pack(each, level=QUICK) for each in batches),
            "tens": b"".join(map(frame_pack, thinned(batches))),
            "means": frame_pack(means_of(batches, start_s=start_s, slots=BLOCK_S // MEAN_S)),
        }
        TelemetryBlock.objects.update_or_create(node_id=node_id, start_at=start_at, defaults=values)
    return True


# ---- samples ---------------------------------------------------------------------------------------------------------


def merged(batches: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Join batches that follow each other into one, in time order; a sample's time moves by half a period at most."""
    found: list[dict[str, Any]] = []
    for batch in sorted(batches, key=lambda each: each["start"]):
        last = found[-1] if found else None
        if last is None or not _follows(last, batch):
            begun = {"count": 0, "gpus": {}, "host": {}, "attempts": {}}
            found.append({"start": batch["start"], "period_s": batch["period_s"], **begun})
            last = found[-1]
        _extend(last, batch)
    return found


def _follows(last: Mapping[str, Any], batch: Mapping[str, Any]) -> bool:
    expected = last["start"] + last["count"] * last["period_s"]
    same = last["period_s"] == batch["period_s"]
    return same and abs(batch["start"] - expected) <= batch["period_s"] / 2


def _extend(whole: dict[str, Any], batch: Mapping[str, Any]) -> None:
    count = batch["count"]
    pairs = [(whole["host"], batch.get("host") or {})]
    for group in GROUPS.values():
        pairs += [(whole[group].setdefault(key, {}), series) for key, series in (batch.get(group) or {}).items()]
    for kept, series in pairs:
        for name, values in series.items():
            if isinstance(values, list):
                row = kept.setdefault(name, [])
                row += [None] * (whole["count"] - len(row)) + values[:count] + [None] * (count - len(values))
    whole["count"] += count


def thinned(batches: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return batches as their means over TEN_S, with the lowest and highest use of GPUs; longer periods stay as they are."""
    return [_thin(batch) if batch["period_s"] < TEN_S else dict(batch) for batch in batches]


def _thin(batch: Mapping[str, Any]) -> dict[str, Any]:
    first = int(batch["start"] // TEN_S)
    spans = _spans(batch, first * TEN_S, TEN_S)
    count = max((slot for slot, _, _ in spans), default=-1) + 1

    def series(values: list[Any], pick: Callable[[list[float]], float]) -> list[Any]:
        row: list[Any] = [None] * count
        for slot, own in _by_slot(values, spans):
            row[slot] = round(pick(own), DIGITS)
        return row

    def thin(measures: Mapping[str, Any]) -> dict[str, Any]:
        known = {name: _finite(values) for name, values in measures.items() if isinstance(values, list)}
        own = {name: series(values, mean_of) for name, values in known.items()}
        if SPREAD in own and f"{SPREAD}.low" not in own:
            own |= {f"{SPREAD}.low": series(known[SPREAD], min), f"{SPREAD}.high": series(known[SPREAD], max)}
        return own

    groups = {
        group: {key: thin(measures) for key, measures in (batch.get(group) or {}).items()} for group in GROUPS.values()
    }
    whole = {"start": float(first * TEN_S), "period_s": float(TEN_S), "count": count, **groups}
    return whole | {"host": thin(batch.get("host") or {})}


def _finite(values: list[Any]) -> list[float | None]:
    """Return a series with None where there is no finite number: itself, as nearly always, when there is nothing else."""
    if set(map(type, values)) <= _NUMBERS and math.isfinite(sum(filter(None, values))):
        return values
    return [each if isinstance(each, (int, float)) and math.isfinite(each) else None for each in values]


def _spans(batch: Mapping[str, Any], start_s: float, slot_s: float) -> list[tuple[int, int, int]]:
    """Return (slot, first, stop): of a batch's samples `first` to `stop` - 1 lie in the slot of `slot_s` from `start_s` on."""
    spans: list[tuple[int, int, int]] = []
    for k in range(batch["count"]):
        slot = int((batch["start"] + k * batch["period_s"] - start_s) // slot_s)
        if spans and spans[-1][0] == slot:
            spans[-1] = (slot, spans[-1][1], k + 1)
        else:
            spans.append((slot, k, k + 1))
    return spans


def _by_slot(values: list[float | None], spans: Iterable[tuple[int, int, int]]) -> Iterator[tuple[int, list[float]]]:
    """Yield each slot with samples, and its samples."""
    for slot, first, stop in spans:
        if own := [value for value in values[first:stop] if value is not None]:
            yield slot, own


def mean_of(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def telemetry_thin(*, now: datetime | None = None) -> int:
    """Drop the samples as sent of blocks that are over an hour old and have their 10 s means; return how many. One query.

    Only those of the last day are looked at: blocks that were missed then go with their day.
    """
    now = now or timezone.now()
    old = TelemetryBlock.objects.filter(
        start_at__lt=now - KEEP_SAMPLES - timedelta(seconds=BLOCK_S), start_at__gte=now - timedelta(days=1)
    )
    known = old.annotate(samples=Length("packed"), means_10s=Length("tens")).filter(samples__gt=0, means_10s__gt=0)
    return known.update(packed=b"")


# ---- means -----------------------------------------------------------------------------------------------------------


def means_of(batches: Iterable[Mapping[str, Any]], *, start_s: float, slots: int) -> dict[str, Any]:
    """Return `{"series": {"gpu0.utilisation": [first slot, [mean, ...]], "host.cpu_cores": ..., "attempt7.cpu_cores": ...}}`.

    A slot is five minutes from `start_s` on; within a series None stands for one without a sample.
    """
    values: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for batch in batches:
        spans = [span for span in _spans(batch, start_s, MEAN_S) if 0 <= span[0] < slots]
        for name, series in _named(batch):
            for slot, own in _by_slot(_finite(series), spans):
                values[name][slot] += own
    left_out = _left_out(values)
    rows: dict[str, Any] = {}
    for name, by in values.items():
        if name.partition(".")[0] in left_out:
            continue
        rows[name] = row_of({slot: mean_of(own) for slot, own in by.items()})
        if name.startswith("gpu") and name.endswith(f".{SPREAD}"):
            rows[f"{name}.low"], rows[f"{name}.high"] = (
                row_of({slot: pick(own) for slot, own in by.items()}) for pick in (min, max)
            )
    return {"series": rows}


def row_of(by: Mapping[int, float]) -> list[Any]:
    first = min(by)
    return [first, [round(by[slot], DIGITS) if slot in by else None for slot in range(first, max(by) + 1)]]


def _named(batch: Mapping[str, Any]) -> Iterator[tuple[str, list[Any]]]:
    groups = [("host", batch.get("host") or {})]
    for word, group in GROUPS.items():
        groups += [(f"{word}{key}", series) for key, series in (batch.get(group) or {}).items()]
    for where, series in groups:
        for name, values in series.items():
            if isinstance(values, list):
                yield f"{where}.{name}", values


def _left_out(values: Mapping[str, Mapping[int, Sequence[float]]]) -> set[str]:
    """Return the attempts above the bound, those with the fewest samples."""
    samples: Counter[str] = Counter()
    for name, by in values.items():
        where = name.partition(".")[0]
        if where.startswith("attempt"):
            samples[where] = max(samples[where], sum(map(len, by.values())))
    dropped = {where for where, _ in samples.most_common()[ATTEMPTS_KEPT:]}
    if dropped:
        log.warning(
            "telemetry: %d attempts in ten minutes on one node; the means of %d are kept", len(samples), ATTEMPTS_KEPT
        )
    return dropped


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
