"""Predict starts in the background, at most once a minute, and keep how earlier predictions fared (section 7).

It never runs inside a planning: beat asks for it, a lease of its own keeps two workers from doing it twice, and a run
that finds the lease taken leaves at once. The record counts the first range that was given in a wait: the last one
before the start would flatter. The same record makes the next ranges as wide as they have to be (`scheduler.asking.starts`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from portal.foundation.events.services import page_event
from portal.planning.rounds.asking.experience import experience_read
from portal.planning.rounds.endless import Endless, within
from portal.planning.rounds.models import ForecastRecord, PlanningLease, StartForecast
from portal.planning.rounds.planning.lease import REST_MOST_S, errand, errand_rest
from portal.planning.rounds.planning.snapshot import state_load
from portal.planning.rounds.settings.knobs import knobs_current, scheduler_parameters
from portal.work.jobs.models import Attempt, Job
from portal.work.jobs.states import QUEUED
from scheduler.asking.forecast import forecast

if TYPE_CHECKING:
    from scheduler.asking.starts.ranges import StartRange
    from scheduler.model import Clock

LIMIT_S = 8.0
"""The limit of processor time for the simulation; with it over, fewer draws count."""
ENDLESS_S = 60.0
"""The limit of processor time after which a run counts as endless."""
WALL_S = 60.0
"""The same on the wall, half of the lease: on a busy machine each second of work takes many."""
SHARE = 0.1
"""Of a core's time, at most: a longer run is followed by so long a rest, and by one as long as it took. One of up to six
seconds of processor time comes each minute, on a machine that others load too.
"""
LEASE_S = 120.0
PATIENCE_S = 10.0
"""For a planning under way to end; then the next minute tries again."""
PERIOD_S = 60.0
"""Between two runs on a cluster where they are short: beat's."""

BATCH = 500
RANGE = ("earliest_at", "median_at", "latest_at")
FIRST = tuple(f"first_{name}" for name in RANGE)


def forecasts_refresh() -> int | None:
    """Record what started, then predict anew; return how many jobs have a prediction, None while another does it."""
    try:
        with errand("forecast", limit_s=LEASE_S) as mine:
            if not mine or not _planning_over():
                return None
            own_s, wall_s = time.thread_time(), time.monotonic()
            forecasts_settle()
            found = within(ENDLESS_S, _predict)
            rest_s = max((time.thread_time() - own_s) * (1.0 / SHARE - 1.0), time.monotonic() - wall_s)
    except Endless:
        errand_rest("forecast", rest_s=REST_MOST_S)
        raise
    if rest_s > PERIOD_S:
        errand_rest("forecast", rest_s=rest_s)
    return found


def _predict() -> int:
    """Predict and store; return for how many jobs."""
    parameters, now = scheduler_parameters(knobs_current()), timezone.now()
    state = state_load(now=now, parameters=parameters)
    if not state.jobs:
        return 0
    rng = np.random.default_rng(int(now.timestamp()))
    known = experience_read(now=now, parameters=parameters)
    ranges = forecast(state, now.timestamp(), parameters, rng, own_clock(), limit_s=LIMIT_S, experience=known)
    return _store(ranges, now)


def own_clock() -> Clock:
    """Return a clock that begins at 0 and goes by this thread's processor time, or reaches `LIMIT_S` after `WALL_S`.

    By the wall clock, a machine that others load would cut draws off just when starts are hardest to tell.
    """
    own_s, wall_s = time.thread_time(), time.monotonic()
    return lambda: max(time.thread_time() - own_s, (time.monotonic() - wall_s) * LIMIT_S / WALL_S)


def _planning_over() -> bool:
    """Wait a little for a planning under way: both would compete for the same cores, and the planning has a limit."""
    until = time.monotonic() + PATIENCE_S
    while PlanningLease.objects.filter(until__gte=timezone.now()).exists():
        if time.monotonic() >= until:
            return False
        time.sleep(0.2)
    return True


def forecasts_settle() -> int:
    """Keep how the forecasts of jobs that were placed meanwhile fared, and forget those of jobs that ended waiting."""
    starts = _starts()
    given = StartForecast.objects.filter(job_id__in=list(starts)).values_list("job_id", "first_at", *FIRST, "drawn")
    rows = [
        ForecastRecord(
            job_number=job_id,
            given_at=at,
            earliest_at=early,
            median_at=middle,
            latest_at=late,
            started_at=starts[job_id],
            drawn=drawn,
        )
        for job_id, at, early, middle, late, drawn in given
    ]
    with transaction.atomic():
        ForecastRecord.objects.bulk_create(rows, batch_size=BATCH)
        StartForecast.objects.filter(job_id__in=list(starts)).delete()
        StartForecast.objects.exclude(job__state__in=QUEUED).delete()
    return len(rows)


def _starts() -> dict[int, datetime]:
    """Return by job when those with a forecast were placed first since. One query."""
    placed = (
        Attempt.objects.runs()
        .filter(
            job__start_forecast__isnull=False,
            epoch__gt=F("job__start_forecast__epoch"),
            created_at__gte=F("job__start_forecast__first_at"),
        )
        .order_by("job_id", "epoch")
    )
    starts: dict[int, datetime] = {}
    for job_id, created_at in placed.values_list("job_id", "created_at"):
        starts.setdefault(job_id, created_at)
    return starts


def _store(ranges: Mapping[int, StartRange], now: datetime) -> int:
    """Write the ranges of jobs that still wait; the range as first given stays. A job beyond the horizon has none."""
    known = {job: each for job, each in ranges.items() if each.earliest_s is not None}
    rows = []
    with transaction.atomic():
        epochs = dict(Job.objects.filter(state__in=QUEUED, pk__in=list(known)).values_list("pk", "epoch"))
        for job_id, epoch in epochs.items():
            each = known[job_id]
            ends_s = (each.earliest_s, each.median_s, each.latest_s)
            earliest, middle, latest = (None if s is None else datetime.fromtimestamp(s, UTC) for s in ends_s)
            shown = {"earliest_at": earliest, "median_at": middle, "latest_at": latest, "at": now}
            first = {f"first_{name}": value for name, value in shown.items()}
            drawn = [] if each.drawn is None else [each.drawn.low_s, each.drawn.middle_s, each.drawn.high_s]
            rows.append(StartForecast(job_id=job_id, epoch=epoch, **shown, **first, drawn=drawn))
        StartForecast.objects.bulk_create(
            rows, batch_size=BATCH, update_conflicts=True, unique_fields=["job"], update_fields=["at", *RANGE]
        )
        StartForecast.objects.filter(at__lt=now).delete()
        page_event(stream="cluster", topic="forecast")
    return len(rows)


def records_expire() -> int:
    """Delete records older than plannings are kept."""
    limit = timezone.now() - timedelta(days=knobs_current()["planning_keep_days"])
    return ForecastRecord.objects.filter(started_at__lt=limit).delete()[0]
