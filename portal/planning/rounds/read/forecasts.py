"""Predicted starts: read the present ones and how past ones fared."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import F

from portal.planning.rounds.models import ForecastRecord, StartForecast
from portal.work.jobs.models import Job
from portal.work.jobs.states import JobState
from scheduler.asking.forecast import FAR
from scheduler.asking.starts.ranges import HELD, StartRange, accuracy, covers

Row = tuple[StartRange, float, float]

HORIZONS_S = (300.0, 3600.0)
"""Borders between horizons, for the record."""
RANGES_MOST = FAR.jobs
"""Waiting jobs, in order of priority, for which ranges are computed."""
MARKS = 20
"""The latest starts of a horizon, one by one; with fewer nothing can be said of ranges."""
RANGE_SHARE = HELD
"""The probability that ranges are made for."""
FIRST_READ = 200
"""The number of ranges looked at for the next starts: a whole array may stand before other jobs."""
RECORDS_READ = 2000
"""The number of latest starts behind coverage and error."""


def forecasts_of(job_ids: Collection[int]) -> dict[int, StartForecast]:
    """Return the present forecast of each job that has one. One query."""
    return StartForecast.objects.in_bulk(job_ids)


def foretold_first() -> dict[int, StartForecast]:
    """Return the start ranges of waiting jobs by their middle, the first FIRST_READ, by the job's id. One query."""
    rows = StartForecast.objects.filter(job__state=JobState.PENDING, job__waiting_since__isnull=False)
    order = (F("median_at").asc(nulls_last=True), "earliest_at", "job_id")
    return {row.job_id: row for row in rows.defer("drawn").order_by(*order)[:FIRST_READ]}


@dataclass(frozen=True, slots=True)
class Start:
    """When a waiting job will probably start, as every page, list, REST and the command line show it.

    The range begins now at the earliest. `latest_at` None: beyond what was simulated. `passed`: the range is over, and the job
    has not started. `at`: when the range was made.
    """

    at: datetime
    earliest_at: datetime
    median_at: datetime | None
    latest_at: datetime | None
    passed: bool


def start_told(forecast: StartForecast | None, now: datetime) -> Start | None:
    """Return a waiting job's forecast as it is shown."""
    if forecast is None:
        return None
    early, middle, late = forecast.earliest_at, forecast.median_at, forecast.latest_at
    if late is not None and late < now:
        return Start(forecast.at, early, middle, late, passed=True)
    return Start(forecast.at, max(early, now), middle and max(middle, now), late, passed=False)


def starts_of(jobs: Iterable[Job], now: datetime) -> dict[int, Start]:
    """Return when these jobs will probably start, by id, of those that have a range; a held job has none. One query."""
    known = forecasts_of([job.pk for job in jobs if job.state == JobState.PENDING])
    return {pk: told for pk, forecast in known.items() if (told := start_told(forecast, now))}


def forecast_record() -> dict[str, Any]:
    """Return how past forecasts fared, as first given in a wait: `starts`, `held` (share 0..1 of the starts inside their
    range) and `median_error_s` (of the range's middle); None without any start. One query.

    `by_horizon`: the same for the ranges whose middle lay so far ahead, `from_s` to `until_s` (None: no end), and `last`: how
    the latest `MARKS` fared, oldest first (held, later, earlier); those without a start are left out.
    """
    fields = ("given_at", "earliest_at", "median_at", "latest_at", "started_at")
    rows = [
        (_range(early, middle, late), given.timestamp(), start.timestamp())
        for given, early, middle, late, start in ForecastRecord.objects.order_by("-started_at").values_list(*fields)[
            :RECORDS_READ
        ]
    ]
    return {**_fared(rows), "by_horizon": _by_horizon(rows)}


def _by_horizon(rows: list[Row]) -> list[dict[str, Any]]:
    parts: dict[int, list[Row]] = {}
    for row in rows:
        middle_s, made_s = row[0].median_s, row[1]
        ahead_s = math.inf if middle_s is None else middle_s - made_s
        parts.setdefault(bisect_right(HORIZONS_S, ahead_s), []).append(row)
    ends = (0.0, *HORIZONS_S, None)
    return [
        {
            "from_s": ends[k],
            "until_s": ends[k + 1],
            **_fared(parts[k]),
            "last": [_outcome(predicted, start_s) for predicted, _, start_s in parts[k][:MARKS]][::-1],
        }
        for k in sorted(parts)
    ]


def _outcome(predicted: StartRange, start_s: float) -> str:
    if covers(predicted, start_s):
        return "held"
    return "earlier" if predicted.earliest_s is not None and start_s < predicted.earliest_s else "later"


def ranges_trust() -> str:
    """Say how the ranges of the latest starts fared, or, with too few to say, the purpose of ranges. One query."""
    fields = ("earliest_at", "median_at", "latest_at", "started_at")
    rows = ForecastRecord.objects.order_by("-started_at").values_list(*fields)[:MARKS]
    held = [covers(_range(early, middle, late), start.timestamp()) for early, middle, late, start in rows]
    if len(held) < MARKS:
        return f"ranges are made to hold {RANGE_SHARE:.0%} of starts".replace("%", "\u00a0%")
    return f"ranges held {sum(held)} of the last {MARKS} starts"


def record_at(record: Mapping[str, Any], ahead_s: float) -> dict[str, Any] | None:
    """Return the part of `forecast_record` for ranges whose middle lay as far ahead; None where there is none."""
    for part in record["by_horizon"]:
        if part["from_s"] <= max(0.0, ahead_s) and (part["until_s"] is None or ahead_s < part["until_s"]):
            return dict(part)
    return None


def _fared(rows: list[Row]) -> dict[str, Any]:
    fared = accuracy(rows)
    return {"starts": fared.jobs, "held": fared.coverage, "median_error_s": fared.median_error_s}


def range_missing(*, job: Job, rank: int | None, eligible: bool) -> str | None:
    """Say why a waiting job has no start range; None for one that others keep from starting, or that nobody ordered yet.

    At most one query. Call it for a job without a forecast.
    """
    if not eligible or rank is None:
        return None
    if rank > RANGES_MOST:
        return (
            f"Not computed for this job: it is number {rank} in order of priority, and start ranges are computed for the "
            f"first {RANGES_MOST}."
        )
    last = StartForecast.objects.order_by("-at").values_list("at", flat=True).first()
    if last is None or last < job.submitted_at:
        return "Not computed for this job yet: start ranges are computed about once a minute, on large clusters more rarely."
    return (
        "Not computed for this job: in the simulation of the queue, as far as that came in its time and a day ahead at most, "
        "it did not start."
    )


def _range(*moments: datetime | None) -> StartRange:
    earliest, middle, latest = (None if each is None else each.timestamp() for each in moments)
    return StartRange(earliest, middle, latest, draws=0)
