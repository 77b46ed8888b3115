"""When a running job is expected to end: the middle, a range of 80 % given how long it has run, and their source."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.utils import timezone

from portal.planning.estimation.selectors import progress_fractions
from portal.planning.rounds.planning.running import length_at_start
from portal.work.jobs.declaration.table import MAX_SECONDS
from scheduler.estimator import lengths
from scheduler.fairness.lrf import BY_SAMPLES

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from portal.work.jobs.models import Attempt, Job
    from scheduler.estimator.lengths import Length

LEAST_FRACTION = 0.02
"""Below this a job's own word says too little of the rest."""
PARTS = (0.1, 0.5, 0.9)
RUNS_LEAST, NEAR = 5, 1.25
"""An owner is usually right after this number of runs, if the middle one is as long as declared but for this factor."""
OWN = frozenset({lengths.OF_MODEL, lengths.OF_OWNER, lengths.OF_TENANT})
PROGRESS, LIMIT, NOBODY = "progress", "limit", "nobody knows"


@dataclass(frozen=True, slots=True)
class Expected:
    """`source`: a rule of `scheduler.estimator.lengths`, "progress", "samples" or "limit"; `runs`: the ended jobs behind it.

    `median_at` is None where nobody knows; `total_s`: then the range of its whole run time in seconds, where others tell it. The
    range is None where only one time is known.
    """

    source: str
    runs: int = 0
    median_at: datetime | None = None
    earliest_at: datetime | None = None
    latest_at: datetime | None = None
    total_s: tuple[float, float] | None = None
    is_usual: bool = False  # its owner's record is good, and the declared length is as long


def ran_s(job: Job, attempt: Attempt, now: datetime) -> float:
    """Return the seconds that the job has run over all attempts."""
    return job.ran_s + _here_s(attempt, now)


def _here_s(attempt: Attempt, now: datetime) -> float:
    return max(0.0, (now - attempt.started_at).total_seconds()) if attempt.started_at else 0.0


def expected_end(job: Job, attempt: Attempt, fraction: float | None, now: datetime) -> Expected | None:
    """Return the expected end of a running job; None where nothing tells, or its expected time is over.

    `fraction`: how much of its work it says is done. A time limit that comes before it ends it.
    """
    ran = (job.ran_s if job.checkpointable else 0.0) + _here_s(attempt, now)
    limit = limit_at(job, attempt)
    if fraction is not None and fraction >= LEAST_FRACTION:
        return _limited(Expected(PROGRESS, median_at=_after(now, ran * (1.0 - fraction) / fraction)), limit)
    if job.age_s is None:
        return None
    length = length_at_start(job)
    if length.is_vague or (job.samples is not None and length.source != BY_SAMPLES):
        total_s = (length.quantile(PARTS[0], ran), length.quantile(PARTS[2], ran)) if length.runs else None
        return Expected(length.source, length.runs, total_s=total_s)
    if not length.spread:
        only = Expected(length.source, length.runs, _after(now, job.age_s - ran))
        return _limited(only, limit) if job.age_s > ran else None
    early, middle, late = (_after(now, length.quantile(part, ran) - ran) for part in PARTS)
    return _limited(Expected(length.source, length.runs, middle, early, late, is_usual=_is_usual(job, length)), limit)


def _is_usual(job: Job, length: Length) -> bool:
    if not job.expected_duration_s or length.runs < RUNS_LEAST or length.spread > lengths.TOLD_SPREAD:
        return False
    return 1 / NEAR <= length.median_s / job.expected_duration_s <= NEAR


def _after(now: datetime, seconds: float) -> datetime:
    """Return the moment. Ages that were kept before they had a bound may be of millions of years."""
    return now + timedelta(seconds=min(seconds, MAX_SECONDS))


def _limited(end: Expected, limit: datetime | None) -> Expected:
    if limit is None or end.median_at is None:
        return end
    if limit <= end.median_at:
        return Expected(
            LIMIT, median_at=limit, earliest_at=end.earliest_at and min(end.earliest_at, limit), latest_at=limit
        )
    early, late = end.earliest_at, end.latest_at
    return Expected(end.source, end.runs, end.median_at, early, late and min(late, limit), is_usual=end.is_usual)


def end_told(job: Job) -> dict[str, Any] | None:
    """Return a running job's expected end for programs; None of any other. Two queries."""
    run = job.attempts.runs().live().filter(started_at__isnull=False).first()
    end = run and expected_end(job, run, progress_fractions([job]).get(job.pk), timezone.now())
    if not end:
        return None
    told = {name: getattr(end, name) for name in ("median_at", "earliest_at", "latest_at", "source", "runs")}
    return told | {"words": source_words(end) if end.median_at else NOBODY}


def ends_of(attempts: Collection[Attempt], now: datetime) -> dict[int, datetime]:
    """Return when their jobs should end, by row id; of an array, the last that is known of its tasks. One query."""
    done = progress_fractions(attempt.job for attempt in attempts)
    found: dict[int, datetime] = {}
    for attempt in attempts:
        job = attempt.job
        end = expected_end(job, attempt, done.get(job.pk), now)
        if end is not None and end.median_at is not None:
            own = job.array_id or job.pk
            found[own] = max(end.median_at, found.get(own, end.median_at))
    return found


def limit_at(job: Job, attempt: Attempt) -> datetime | None:
    """Return when the attempt reaches the job's time limit."""
    if job.time_limit_s is None or attempt.started_at is None:
        return None
    return attempt.started_at + timedelta(seconds=job.time_limit_s)


def source_words(end: Expected) -> str:
    """Return where an expected end comes from, in a few words."""
    if end.source == lengths.DECLARED:
        return "declared, and its owner is usually right" if end.is_usual else "declared"
    if end.source in SAID or not end.runs:
        return SAID.get(end.source, NOBODY)
    return f"from {end.runs} run{'s' if end.runs > 1 else ''} {'like it' if end.source in OWN else 'of all users'}"


SAID = {
    PROGRESS: "from its own progress",
    BY_SAMPLES: "from its samples and its speed",
    LIMIT: "its time limit ends it",
    lengths.OF_LIMITS: "from its time limit and how its owner sets limits",
}
