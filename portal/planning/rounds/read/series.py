"""Figures over hours and days, made to be drawn: few points for any range and any number of plannings.

An hour comes from its plannings. A day and a week come from the rounds' roll-ups, so that a point stands for all that
happened in its stretch and not for the one planning that was picked; neighbouring rounds are merged, by time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from django.utils import timezone

from portal.foundation.errors import BerthError
from portal.planning.rounds.models import Round
from portal.planning.rounds.read.history import points_since
from portal.planning.rounds.record.metrics import RAQLR_HOURS
from portal.planning.rounds.serializers import finite
from scheduler.metrics import over_round

RANGES: Mapping[str, timedelta] = {"1h": timedelta(hours=1), "24h": timedelta(hours=24), "7d": timedelta(days=7)}
MOST = 240
FEW_ROUNDS = 24
"""With fewer rounds in the range than this its plannings tell more."""
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


def rounds_since(*, since: datetime, now: datetime) -> list[Stretch]:
    """Return the rounds since then, oldest first, merged into at most MOST stretches; the present one so far last."""
    return rounds_merged(rounds_read(since=since, now=now), since=since, now=now)


def rounds_read(*, since: datetime, now: datetime) -> list[Stretch]:
    """Return each round since then. At most five queries and no decisions, for any number of rounds."""
    rows = Round.objects.filter(started_at__gte=since).exclude(metrics={}).order_by("number")
    found = [
        Stretch(start, until, metrics, number, 1)
        for start, until, metrics, number in rows.values_list("started_at", "ended_at", "metrics", "number")
    ]
    present = Round.objects.order_by("-number").filter(ended_at=None).first()
    if present is not None and (so_far := _so_far(present, now=now)) is not None:
        found.append(so_far)
    return found


def rounds_merged(rounds: list[Stretch], *, since: datetime, now: datetime, most: int = MOST) -> list[Stretch]:
    """Merge neighbours into at most `most` stretches."""
    if len(rounds) <= most:
        return rounds
    step = (now - since) / most
    return [_one([*group]) for _, group in groupby(rounds, key=lambda each: int((each.start - since) / step))]


def _so_far(present: Round, *, now: datetime) -> Stretch | None:
    points = points_since(since=present.started_at, most=MOST)
    if not points:
        return None
    figures = over_round([(point.at.timestamp(), point.metrics) for point in points], now.timestamp())
    last = {name: points[-1].metrics.get(name) for name in LAST_COUNTS}
    return Stretch(present.started_at, now, figures | last, present.number, 1)


def _one(rounds: Sequence[Stretch]) -> Stretch:
    """Merge neighbours: means by time, the last one's where a figure looks back, sums of counts."""
    first, last = rounds[0], rounds[-1]
    if len(rounds) == 1:
        return first
    figures: dict[str, Any] = dict(
        over_round([(each.start.timestamp(), each.figures) for each in rounds], last.until.timestamp())
    )
    figures |= {name: last.figures.get(name) for name in LAST_COUNTS}
    figures |= {name: sum(each.figures.get(name) or 0 for each in rounds) for name in SUMS}
    return Stretch(first.start, last.until, figures, first.number, len(rounds))


def course_since(*, since: datetime, now: datetime, hold_s: float, rounds: Sequence[Stretch]) -> list[Stretch]:
    """Return the figures as they went: by plannings for an hour or few rounds, else as `rounds` tells.

    A stretch without a planning, longer than `hold_s`, is there with no figures: a line is broken by it.
    """
    if now - since > RANGES["1h"] and len(rounds) >= FEW_ROUNDS:
        return list(rounds)
    points = points_since(since=since, most=MOST)
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
