"""Read plannings in the past: rows without their bulky parts, evenly thinned series of their figures, RAQLR of any h."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.db.models import F, IntegerField, Max, Min, Value
from django.db.models.functions import Mod

from portal.errors import NotFound
from portal.rounds.models import Planning
from portal.rounds.snapshot import ended_since
from scheduler.metrics import raqlr

if TYPE_CHECKING:
    from datetime import datetime

    from django.db.models import QuerySet


@dataclass(frozen=True, slots=True)
class Point:
    """A planning's figures: `metrics` as `scheduler.model.Metrics` names them, `utilisation` in per cent."""

    at: datetime
    number: int
    metrics: dict[str, Any]


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


def points_since(*, since: datetime, most: int) -> list[Point]:
    """Return at most about `most` applied plannings since then, oldest first, the last one always among them.

    Thinned by number in SQL, so that a day of plannings costs as much as an hour. Two queries.
    """
    rows = Planning.objects.filter(started_at__gte=since, status=Planning.Status.APPLIED)
    ends = rows.aggregate(first=Min("number"), last=Max("number"))
    if ends["last"] is None:
        return []
    step = -(-(ends["last"] - ends["first"] + 1) // most)
    if step > 1:
        place = Mod(F("number"), Value(step), output_field=IntegerField())
        rows = rows.annotate(place=place).filter(place=ends["last"] % step)
    return [Point(*row) for row in rows.order_by("number").values_list("started_at", "number", "metrics")]


def raqlr_now(*, hours: float, now: datetime) -> tuple[float | None, int]:
    """Return RAQLR(h) and its m as of now (Hops, eq. 7); (None, 0) when nothing ended in the last `hours`."""
    return raqlr(ended_since(now - timedelta(hours=hours)), now.timestamp(), hours)
