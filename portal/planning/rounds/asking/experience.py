"""The forecasts' sources: how long jobs ran against their expected times, the last arrivals, and how past ranges fared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.db.models import Q

from portal.planning.rounds.models import ForecastRecord, StartForecast
from portal.planning.rounds.planning.model_jobs import to_new_model_jobs
from portal.work.jobs.models import Attempt, Job, JobText
from portal.work.jobs.states import QUEUED, JobState
from scheduler.asking.starts.ranges import MOST, Drawn, Foretold
from scheduler.asking.starts.runtimes import PastRun, RunTimes
from scheduler.asking.starts.scene import Experience

if TYPE_CHECKING:
    from scheduler.parameters import Parameters

RUNS_READ = 2000
"""The number of latest completed jobs behind the run times."""
ARRIVALS_READ, ARRIVALS_S = 300, 24 * 3600.0
"""The number of jobs of the last day behind those to come."""
ARRIVALS_LEAST_S = 1800.0
"""The least age of a cluster: the submissions of its first minute do not come every minute."""


def experience_read(*, now: datetime, parameters: Parameters) -> Experience:
    """Return run times, arrivals, the record, and of unfinished jobs what they ran before and their limits. Eleven queries."""
    came, first = _arrivals(now)
    arrivals = to_new_model_jobs(came, now=now, parameters=parameters)
    return Experience(
        RunTimes([*_ended(), *_running(now)]), arrivals, first.timestamp(), _record(now), _ran_before(), _limits()
    )


def _ended() -> list[PastRun]:
    """Return the latest completed jobs. One query."""
    ended = (
        Job.objects.runnable()
        .filter(state=JobState.COMPLETED, ended_at__isnull=False, age_s__gt=0, ran_s__gt=0)
        .order_by("-ended_at")
        .values_list("owner_id", "ran_s", "age_s", "gpus", "attained_gpu_s")[:RUNS_READ]
    )
    return [
        PastRun(owner, ran_s, age_s, ended=True, size=_size(sizes, gpu_s / ran_s), sizes=tuple(sizes))
        for owner, ran_s, age_s, sizes, gpu_s in ended
    ]


def _running(now: datetime) -> Iterator[PastRun]:
    """Give the running jobs, as far as they have come by now. One query."""
    live = (
        Attempt.objects.runs().filter(ended_at=None, started_at__isnull=False, job__age_s__gt=0).select_related("job")
    )
    for attempt in live:
        here_s, job = max(0.0, (now - attempt.started_at).total_seconds()), attempt.job
        ran_s = job.ran_s + here_s
        if ran_s > 0:
            size = _size(job.gpus, (job.attained_gpu_s + attempt.gpus * here_s) / ran_s)
            yield PastRun(job.owner_id, ran_s, job.age_s, ended=False, size=size, sizes=tuple(job.gpus))


def _ran_before() -> dict[int, float]:
    """Return the seconds that earlier attempts ran, by job that goes on from there and does not tell how far it is. One query."""
    going_on = Job.objects.filter(ended_at=None, checkpointable=True, ran_s__gt=0)
    return dict(going_on.exclude(progress__fraction__gt=0).order_by().values_list("pk", "ran_s"))


def _limits() -> dict[int, float]:
    """Return the time limits of unfinished jobs, in seconds: an attempt is ended by then. One query."""
    limited = Job.objects.runnable().filter(ended_at=None, time_limit_s__isnull=False).order_by()
    return {pk: float(limit_s) for pk, limit_s in limited.values_list("pk", "time_limit_s") if limit_s is not None}


def _arrivals(now: datetime) -> tuple[list[Job], datetime]:
    """Return the last arrivals, latest first, and the time since which these are all. Three queries, however many jobs there are.

    Arrays stand in the index of submissions as one; of each the first tasks are taken, as many as there is room for.
    """
    since, left = now - timedelta(seconds=ARRIVALS_S), ARRIVALS_READ
    latest = JobText.objects.filter(submitted_at__gt=since, submitted_at__lte=now).order_by("-submitted_at", "-job_id")
    single, tasks = [], Q(pk__in=[])
    for pk, size, made in latest.values_list("job_id", "job__array_size", "job__array_made")[:ARRIVALS_READ]:
        if size is None:
            single.append(pk)
        elif count := min(made, left):
            tasks |= Q(array=pk, array_index__lt=count)
        left -= 1 if size is None else count
        if left == 0:
            break
    came = list(Job.objects.filter(Q(pk__in=single) | tasks).order_by("-submitted_at"))
    return came, came[-1].submitted_at if left == 0 else max(since, _oldest(now))


def _oldest(now: datetime) -> datetime:
    """Return since when the arrivals are known: from its first job on, yet no burst is taken for a rate at once."""
    first = JobText.objects.order_by("submitted_at", "job_id").values_list("submitted_at", flat=True).first()
    return min(first or now, now - timedelta(seconds=ARRIVALS_LEAST_S))


def _size(sizes: Sequence[int], held: float) -> float:
    """Return the mean of the accepted sizes over what the job held on average."""
    return sum(sizes) / len(sizes) / held if held > 0 and sizes != [0] else 1.0


def _record(now: datetime) -> list[Foretold]:
    """Return how the latest forecasts fared, oldest first, those of jobs that still wait included. Two queries."""
    settled = ForecastRecord.objects.exclude(drawn=[]).order_by("-started_at")
    rows: list[tuple[datetime, Any, datetime, bool]] = [
        (given, drawn, started, True)
        for given, drawn, started in settled.values_list("given_at", "drawn", "started_at")[:MOST]
    ]
    waiting = StartForecast.objects.filter(job__state__in=QUEUED).exclude(drawn=[]).order_by("-first_at")
    rows += [(given, drawn, now, False) for given, drawn in waiting.values_list("first_at", "drawn")[:MOST]]
    return [
        Foretold(given.timestamp(), Drawn(*drawn), max(0.0, (until - given).total_seconds()), started)
        for given, drawn, until, started in sorted(rows, key=lambda row: row[0])
    ]
