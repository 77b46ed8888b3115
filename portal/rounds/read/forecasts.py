"""Predicted starts: read the present ones and how past ones fared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from portal.rounds.models import ForecastRecord, StartForecast
from scheduler.asking.starts.ranges import StartRange, accuracy

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

RECORDS_READ = 2000
"""Coverage and error are those of the latest so many starts."""


def forecasts_of(job_ids: Collection[int]) -> dict[int, StartForecast]:
    """Return the present forecast of each job that has one. One query."""
    return StartForecast.objects.in_bulk(job_ids)


def range_shown(forecast: StartForecast | None) -> dict[str, Any] | None:
    """Return a forecast for REST: the range, and when it was made."""
    if forecast is None:
        return None
    return {name: getattr(forecast, name) for name in ("at", "earliest_at", "median_at", "latest_at")}


def forecast_record() -> dict[str, Any]:
    """Return how past forecasts fared, as first given in a wait: `starts`, `held` (share 0..1 of the starts inside their
    range) and `median_error_s` (of the range's middle); None without any start. One query.
    """
    fields = ("given_at", "earliest_at", "median_at", "latest_at", "started_at")
    rows = ForecastRecord.objects.order_by("-started_at").values_list(*fields)[:RECORDS_READ]
    fared = accuracy((_range(early, middle, late), given.timestamp(), start.timestamp())
                     for given, early, middle, late, start in rows)  # fmt: skip
    return {"starts": fared.jobs, "held": fared.coverage, "median_error_s": fared.median_error_s}


def _range(*moments: datetime | None) -> StartRange:
    earliest, middle, latest = (None if each is None else each.timestamp() for each in moments)
    return StartRange(earliest, middle, latest, draws=0)
