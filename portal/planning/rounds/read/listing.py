"""Read rounds, plannings and the figures they left, for the REST API."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db.models import Count, QuerySet, Sum
from django.db.models.functions import Coalesce
from django.utils import timezone

from portal.foundation.errors import NotFound
from portal.planning.rounds.models import Planning, Round
from portal.planning.rounds.read.history import points_since
from portal.planning.rounds.read.series import rounds_since
from portal.planning.rounds.serializers import finite

MAX_POINTS = 240
_BULKY = ("decisions", "parameters", "error", "stops", "promises", "lapsed", "reservations")


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


def planning_get(number: str) -> Planning:
    found = Planning.objects.select_related("round").filter(number=number_of(number)).first()
    if found is None:
        raise NotFound("planning")
    return found


def metrics_series(*, since: datetime) -> list[dict[str, Any]]:
    """Return a point a planning since then, oldest first; with more than `MAX_POINTS`, evenly thinned, the latest kept."""
    return [
        {
            "at": point.at,
            "planning": point.number,
            "queue_length": point.queue_length,
            "metrics": _figures(point.metrics),
        }
        for point in points_since(since=since, most=MAX_POINTS)
    ]


def metrics_rounds(*, since: datetime) -> list[dict[str, Any]]:
    """Return the rounds' figures since then, oldest first, merged into at most 240 stretches; the present one last."""
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
