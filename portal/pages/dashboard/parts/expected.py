"""When a job is expected to start and to end."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from portal.work.jobs.declaration.table import MAX_SECONDS

if TYPE_CHECKING:
    from datetime import datetime

    from portal.pages.dashboard.parts.context import StartsContext
    from portal.planning.rounds.read.forecasts import Start
    from portal.work.jobs.models import Attempt, Job


def starts_make(start: Start | None) -> StartsContext | None:
    if start is None:
        return None
    return {
        "earliest": start.earliest_at.isoformat(),
        "median": start.median_at.isoformat() if start.median_at else None,
        "latest": start.latest_at.isoformat() if start.latest_at else None,
        "passed": start.passed,
    }


LEAST_FRACTION = 0.02
"""Below this a job's own word says too little of the rest."""


def ran_s(job: Job, attempt: Attempt, now: datetime) -> float:
    """Return the seconds that the job has run over all attempts."""
    here_s = (now - attempt.started_at).total_seconds() if attempt.started_at else 0.0
    return job.ran_s + max(0.0, here_s)


def expected_end(job: Job, attempt: Attempt, fraction: float | None, now: datetime) -> datetime | None:
    """Return the expected end of a running job; None where nothing tells, or its expected time is over.

    A time limit that comes before it ends it.
    """
    ran = ran_s(job, attempt, now)
    left_s: float | None = None
    if fraction is not None and fraction >= LEAST_FRACTION:
        left_s = ran * (1.0 - fraction) / fraction
    elif job.age_s is not None and job.age_s > ran:
        left_s = job.age_s - ran
    if left_s is None:
        return None
    # Ages that were kept before they had a bound may be of millions of years.
    end = now + timedelta(seconds=min(left_s, MAX_SECONDS))
    limit = limit_at(job, attempt)
    return min(end, limit) if limit else end


def limit_at(job: Job, attempt: Attempt) -> datetime | None:
    """Return when the attempt reaches the job's time limit."""
    if job.time_limit_s is None or attempt.started_at is None:
        return None
    return attempt.started_at + timedelta(seconds=job.time_limit_s)
