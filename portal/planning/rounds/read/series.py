"""Figures over hours and days, made to be drawn: few points for any range and any number of plannings.

An hour comes from its plannings. A day and a week come from the rounds' roll-ups, so that a point stands for all that
happened in its stretch and not for the one planning that was picked; neighbouring rounds are merged, by time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from django.db.models import Count, F, IntegerField, Max, Min, Q, QuerySet, Value
from django.db.models.functions import Mod
from django.utils import timezone

from portal.foundation.errors import BerthError
from portal.planning.rounds.models import Planning, Round
from portal.planning.rounds.read.history import columns_of, figures_of, points_since
from portal.planning.rounds.record.by_type import types_mean
from portal.planning.rounds.record.metrics import RAQLR_HOURS
from portal.planning.rounds.serializers import finite
from scheduler.metrics import ROUND_MEANS, means_over, over_round

RANGES: Mapping[str, timedelta] = {"1h": timedelta(hours=1), "24h": timedelta(hours=24), "7d": timedelta(days=7)}
MOST = 240
READ_MOST = 2400
"""Rounds that are read: ten of a point's, where 90 days have a hundred of each."""
FEW_ROUNDS = 24
"""With fewer stretches of rounds in the range than this its plannings tell more."""
LAST_COUNTS = ("raqlr", *(f"{name}_{hours}h" for hours in RAQLR_HOURS for name in ("raqlr", "raqlr_jobs")))
"""Figures that look back by themselves: of several rounds the last one's."""
SUMS = ("plannings", "placed")


@dataclass(frozen=True, slots=True)
class Stretch:
    """`rounds` rounds from `number` on and their figures, named as `round_metrics` names them; {} = nothing known."""

    start: datetime
    until: datetime
    figures: dict[str, Any]
    number: int = 0
    rounds: int = 0


def range_of(text: str | None, ranges: Mapping[str, timedelta] = RANGES) -> tuple[str, timedelta]:
    """Return a range's name and length; the first without a name. Raises BerthError for one that is not offered."""
    name = text or next(iter(ranges))
    if name not in ranges:
        raise BerthError("invalid", f"The range is one of {', '.join(ranges)}.", field="range")
    return name, ranges[name]


def rounds_since(*, since: datetime, now: datetime, names: Sequence[str] | None = None) -> list[Stretch]:
    """Return the rounds since then, oldest first, merged into at most MOST stretches; the present one so far last.

    `names`: the figures that are read; None: all but the types' of merged rounds. At most six queries, no decisions.
    """
    rounds = _read(since, now, names)
    if len(rounds) <= MOST:
        return rounds
    step = (now - since) / MOST
    groups = groupby(rounds, key=lambda each: int((each.start - since) / step))
    return [_one([*group], names) for _, group in groups]


def _read(since: datetime, now: datetime, names: Sequence[str] | None) -> list[Stretch]:
    """Return each round since then; of more than `READ_MOST`, evenly spaced ones."""
    rows, ends = _rows(since, now).order_by("started_at", "number"), _ends(since, now)
    if ends["count"] and (step := (ends["last"] - ends["first"]) // READ_MOST + 1) > 1:
        place = Mod(F("number"), Value(step), output_field=IntegerField())
        rows = rows.annotate(place=place).filter(Q(place=0) | Q(number=ends["first"]))
    found = [
        Stretch(start, until, figures_of(names, values), number, 1)
        for start, until, number, *values in rows.values_list("started_at", "ended_at", "number", *columns_of(names))
    ]
    present = Round.objects.order_by("-number").filter(ended_at=None).only("number", "started_at").first()
    if present is not None and (so_far := _so_far(present, now, names)) is not None:
        found.append(so_far)
    return found


def _rows(since: datetime, now: datetime) -> QuerySet[Round]:
    return Round.objects.filter(started_at__range=(since, now)).exclude(metrics={}).order_by()


def _ends(since: datetime, now: datetime) -> dict[str, Any]:
    """Return the numbers of the first and the last ended round since then, when these began, and how many there are."""
    begun = {"begin": Min("started_at"), "end": Max("started_at")}
    return _rows(since, now).aggregate(first=Min("number"), last=Max("number"), count=Count("pk"), **begun)


def _rounds_tell(ends: dict[str, Any], since: datetime, now: datetime) -> bool:
    """Say whether a range is shown by its rounds: it is longer than an hour, and they make `FEW_ROUNDS` stretches."""
    if now - since <= RANGES["1h"] or ends["count"] < FEW_ROUNDS:
        return False
    return ends["count"] <= MOST or (ends["end"] - ends["begin"]) / (now - since) * MOST >= FEW_ROUNDS - 1


def _so_far(present: Round, now: datetime, names: Sequence[str] | None) -> Stretch | None:
    points = points_since(since=present.started_at, most=MOST, names=names)
    if not points:
        return None
    figures = _means([(point.at.timestamp(), point.metrics) for point in points], now.timestamp(), names)
    return Stretch(present.started_at, now, figures, present.number, 1)


def _one(rounds: Sequence[Stretch], names: Sequence[str] | None) -> Stretch:
    """Merge neighbours: means by time, the last one's where a figure looks back, sums of counts."""
    first, last = rounds[0], rounds[-1]
    if len(rounds) == 1:
        return first
    figures = _means([(each.start.timestamp(), each.figures) for each in rounds], last.until.timestamp(), names)
    if names is None:
        figures |= {name: sum(each.figures.get(name) or 0 for each in rounds) for name in SUMS}
    return Stretch(first.start, last.until, figures, first.number, len(rounds))


def _means(rows: Sequence[tuple[float, dict[str, Any]]], until_s: float, names: Sequence[str] | None) -> dict[str, Any]:
    last = {name: rows[-1][1].get(name) for name in LAST_COUNTS if names is None or name in names}
    if names is None:
        return {**over_round(rows, until_s), **last}
    types = {"types": types_mean(rows, until_s, hold_s=math.inf)} if "types" in names else {}
    return {**means_over(rows, until_s, [name for name in names if name in ROUND_MEANS]), **types, **last}


def course_begin(*, since: datetime, now: datetime) -> datetime | None:
    """Return when `course_since` begins, without reading a figure; None: there is none. Two queries."""
    if _rounds_tell(ends := _ends(since, now), since, now):
        return ends["begin"]
    applied = Planning.objects.filter(started_at__range=(since, now), status=Planning.Status.APPLIED)
    return applied.aggregate(first=Min("started_at"))["first"]


def course_since(*, since: datetime, now: datetime, hold_s: float, names: Sequence[str]) -> list[Stretch]:
    """Return the figures of these names as they went: by plannings for an hour or few rounds, else by rounds.

    A stretch without a planning, longer than `hold_s`, is there with no figures: a line is broken by it.
    """
    if _rounds_tell(_ends(since, now), since, now):
        return rounds_since(since=since, now=now, names=names)
    points = points_since(since=since, most=MOST, names=names)
    ends = [*(point.at for point in points), now][1:]
    spacing_s = (points[-1].at - points[0].at).total_seconds() / len(points) if points else 0.0
    most = timedelta(seconds=hold_s + 2 * spacing_s)
    course: list[Stretch] = []
    for point, end in zip(points, ends, strict=True):
        until = min(end, point.at + most)
        course.append(Stretch(point.at, until, point.metrics))
        if until < end:
            course.append(Stretch(until, end, {}))
    return course


def metrics_series(*, since: datetime) -> list[dict[str, Any]]:
    """Return a point a planning since then, oldest first; with more than `MOST`, evenly thinned, the latest kept."""
    return [
        {
            "at": point.at,
            "planning": point.number,
            "queue_length": point.queue_length,
            "metrics": _figures(point.metrics),
        }
        for point in points_since(since=since, most=MOST)
    ]


def metrics_rounds(*, since: datetime) -> list[dict[str, Any]]:
    """Return the rounds' figures since then, oldest first, merged into at most `MOST` stretches; the present one last."""
    return [
        {
            "from_round": each.number,
            "rounds": each.rounds,
            "start": each.start,
            "until": each.until,
            "metrics": _figures(each.figures),
        }
        for each in rounds_since(since=since, now=timezone.now())
    ]


def _figures(metrics: dict[str, Any]) -> dict[str, float | None]:
    """Keep the plain numbers; {"fragments": {"scattered": 2}} becomes fragments.scattered."""
    found: dict[str, float | None] = {}
    for name, value in finite(metrics).items():
        inner = {f"{name}.{key}": each for key, each in value.items()} if isinstance(value, dict) else {name: value}
        found |= {
            key: item if item is None else float(item)
            for key, item in inner.items()
            if item is None or isinstance(item, (int, float))
        }
    return found
