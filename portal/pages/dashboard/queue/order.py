"""The order of the queue page: jobs with an expected start by it, then the others as the last planning ordered them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from django.db.models import F

from portal.planning.rounds.models import StartForecast
from portal.planning.rounds.read.forecasts import RANGES_MOST
from portal.planning.rounds.record.packing import RESULTS
from portal.work.jobs.models import Job
from portal.work.jobs.queue_counts import waiting_jobs
from portal.work.jobs.states import QUEUED, JobState

if TYPE_CHECKING:
    from portal.people.tenants.models import User
    from portal.planning.rounds.record.decisions import Decisions

NEWCOMERS_MOST = 200
OWN_MOST = 2000
"""A reader's own waiting jobs that are counted and listed apart; of arrays the tasks."""


def waiting_order(decisions: Decisions) -> np.ndarray:
    """Return the ids of the waiting jobs, and of some that have gone since the planning. Two queries of bounded rows."""
    expected = StartForecast.objects.filter(job__state=JobState.PENDING, job__waiting_since__isnull=False)
    by_start = (F("median_at").asc(nulls_last=True), "earliest_at", "job_id")
    first = list(expected.order_by(*by_start).values_list("job_id", flat=True)[:RANGES_MOST])
    waits = decisions.columns["result"] == RESULTS.index("waiting")
    waits[decisions.following] = False
    last = int(decisions.jobs.max()) if len(decisions) else 0
    new = waiting_jobs().filter(pk__gt=last).order_by("pk").values_list("pk", flat=True)[:NEWCOMERS_MOST]
    planned = np.concatenate([decisions.jobs[decisions.following], decisions.jobs[waits]])
    rest = np.concatenate([planned, np.array(list(new), planned.dtype)])
    return np.concatenate([np.array(first, rest.dtype), rest[~np.isin(rest, first)]])


def own_waiting(user: User) -> np.ndarray:
    """Return the ids of the waiting jobs that the user owns, at most OWN_MOST. Two queries."""
    mine = Job.objects.filter(owner=user, array=None).order_by()
    single = mine.filter(state__in=QUEUED, array_size=None, cancel_requested_at=None).values_list("pk", flat=True)
    arrays = mine.filter(array_size__isnull=False, ended_at=None).values("pk")
    tasks = Job.objects.filter(array__in=arrays, state__in=QUEUED, cancel_requested_at=None).order_by()
    found = [*single[:OWN_MOST], *tasks.values_list("pk", flat=True)[:OWN_MOST]]
    return np.array(found[:OWN_MOST], np.int64)
