"""Read rounds and plannings in the past: rows without their bulky parts, evenly thinned series of figures, RAQLR of any h."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, F, IntegerField, Max, Min, Q, QuerySet, Sum, Value
from django.db.models.functions import Coalesce, Mod
from django.utils import timezone

from portal.foundation.errors import NotFound
from portal.planning.rounds.models import Planning, Round
from portal.planning.rounds.planning.past import ended_since
from scheduler import metrics

_BULKY = ("decisions", "parameters", "error", "stops", "promises", "lapsed", "reservations")


@dataclass(frozen=True, slots=True)
class Point:
    """A planning's figures: `metrics` as `scheduler.model.Metrics` names them, `utilisation` in per cent."""

    at: datetime
    number: int
    metrics: dict[str, Any]
    queue_length: int = 0


def rounds_all() -> QuerySet[Round]:
    return Round.objects.annotate(planning_count=Count("plannings"), placed_count=Coalesce(Sum("plannings__placed"), 0))


def number_of(text: str) -> int:
    """Return the number in a path; anything else is as good as missing."""
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise NotFound
    return int(text)


def round_get(number: str) -> Round:
    found = Round.objects.filter(number=number_of(number)).first()
    if found is None:
        raise NotFound("round")
    found.planning_rows = list(found.plannings.select_related("round").defer(*_BULKY))
    return found


def plannings_listed() -> QuerySet[Planning]:
    """Return all plannings with their rounds, the last first, without decisions."""
    return Planning.objects.select_related("round").defer("decisions")


def planning_by_number(number: int) -> Planning:
    found = Planning.objects.select_related("round").filter(number=number).first()
    if found is None:
        raise NotFound("planning")
    return found


def planning_neighbours(number: int) -> tuple[int | None, int | None]:
    """Return the numbers of the planning before and of the one after."""
    before = Planning.objects.filter(number__lt=number).aggregate(n=Max("number"))["n"]
    return before, Planning.objects.filter(number__gt=number).aggregate(n=Min("number"))["n"]


def columns_of(names: Sequence[str] | None) -> list[str]:
    """Return the columns of these figures of a round or a planning, for `values_list`; None: all, as one."""
    return ["metrics"] if names is None else [f"metrics__{name}" for name in names]


def figures_of(names: Sequence[str] | None, values: Sequence[Any]) -> dict[str, Any]:
    """Return the figures by name, of the values that `columns_of` had read."""
    return values[0] if names is None else dict(zip(names, values, strict=True))


def points_since(*, since: datetime, most: int, names: Sequence[str] | None = None) -> list[Point]:
    """Return at most about `most` applied plannings since then, oldest first, the first and the last one always among them.

    Thinned by number in SQL, so that a day of plannings costs as much as an hour, and the same ones are taken whenever one
    looks. Those that a clock which was ahead has noted come when it is their time. `names`: the figures that are read; None:
    all. Two queries.
    """
    past = (since, timezone.now())
    rows = Planning.objects.filter(started_at__range=past, status=Planning.Status.APPLIED)
    ends = rows.aggregate(first=Min("number"), last=Max("number"))
    if ends["last"] is None:
        return []
    step = -(-(ends["last"] - ends["first"] + 1) // most)
    if step > 1:
        place = Mod(F("number"), Value(step), output_field=IntegerField())
        rows = rows.annotate(place=place).filter(Q(place=0) | Q(number__in=ends.values()))
    read = rows.order_by("started_at", "number").values_list("started_at", "number", "queue_length", *columns_of(names))
    return [Point(at, number, figures_of(names, values), length) for at, number, length, *values in read]


def points_evenly(points: Sequence[Point], *, until: datetime, count: int) -> list[Point]:
    """Return `count` points at equal distances from the first to `until`, each with the last planning's figures by then.

    Plannings come in bursts (nudges) between ticks; a bar or a step of a plot stands for a stretch of time, not for one.
    """
    if not points:
        return []
    first, step = points[0].at, (until - points[0].at) / count
    ends = [first + step * place for place in range(1, count + 1)]
    times = [point.at for point in points]
    return [replace(points[bisect_right(times, end) - 1], at=end) for end in ends]


def raqlr_course(*, hours: float, at: Sequence[datetime]) -> list[tuple[float | None, int]]:
    """Return RAQLR(h) and its m at each of the moments (Hops, eq. 7); (None, 0) where nothing had ended in h hours.

    Moments ascend. One query.
    """
    if not at:
        return []
    ended = ended_since(at[0] - timedelta(hours=hours))
    return metrics.raqlr_course(ended, [moment.timestamp() for moment in at], hours)
