"""The changes of my jobs in the last day: starts, ends, stops and their cost."""

from __future__ import annotations

from datetime import timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Any

from django.db.models import Q
from django.urls import reverse

from portal.work.jobs.models import JobEvent
from portal.work.jobs.states import FINAL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from portal.pages.dashboard.home.scope import Scope

SHOWN = 7
SINCE = timedelta(hours=24)
JOBS_MOST, EVENTS_MOST = 100, 60
STATES = {
    "started": "RUNNING",
    "preempted": "PREEMPTED",
    "stop-ordered": "PREEMPTED",
    "requeued": "PENDING",
    "retried": "PENDING",
    "completed": "COMPLETED",
    "failed": "FAILED",
    "timeout": "TIMEOUT",
    "out_of_memory": "OUT_OF_MEMORY",
    "node_fail": "NODE_FAIL",
    "cancelled": "CANCELLED",
    "held": "HELD",
    "released": "PENDING",
    "offer-accepted": "PENDING",
}
"""The kinds of events that are shown, and the state whose glyph stands beside each."""
FOLLOWS = {"preempted": "stop-ordered", "requeued": "preempted"}
"""Kinds that only follow from the job's event before, which get no line: by kind, the kind before."""


def changes_make(scope: Scope) -> list[dict[str, Any]]:
    """Return the latest changes, latest first; equal ones of one job that follow each other are one line. Two queries."""
    since = scope.now - SINCE
    active = Q(ended_at__gte=since) | ~Q(state__in=FINAL)
    jobs = {job.pk: job for job in scope.jobs.filter(active).order_by("-pk")[:JOBS_MOST]}
    events = JobEvent.objects.filter(job_id__in=list(jobs), at__gte=since, kind__in=STATES).order_by("-id")[
        :EVENTS_MOST
    ]
    found: list[dict[str, Any]] = []
    for (job_id, kind), group in groupby(_causes(events), key=lambda event: (event.job_id, event.kind)):
        same = list(group)
        job = jobs[job_id]
        found.append(
            {
                "at": same[0].at.isoformat(),
                "number": job.number,
                "url": reverse("job-detail", args=[job.number]),
                "state": STATES[kind],
                "text": f"{job.name}: {same[0].text}",
                "times": len(same),
            }
        )
    return found[:SHOWN]


def _causes(events: Iterable[JobEvent]) -> list[JobEvent]:
    """Leave out what only follows: a job that a planning stops then ends its attempt and waits again. Latest first."""
    before: dict[int, str] = {}
    told = []
    for event in reversed(list(events)):
        if event.kind not in FOLLOWS or before.get(event.job_id) != FOLLOWS[event.kind]:
            told.append(event)
        before[event.job_id] = event.kind
    return told[::-1]
