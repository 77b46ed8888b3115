"""The past as the scheduler's values: ended jobs (latency ratios, run times), and the divisors of the arrays (section 4)."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from django.db.models import F, Q

from portal.planning.rounds.models import Round
from portal.work.jobs.models import Job
from portal.work.jobs.services.cores import cores_tuned_since
from portal.work.jobs.states import FINAL, JobState
from scheduler import model
from scheduler.estimator.record import HISTORY_JOBS, Ran, Record
from scheduler.fairness.arrays import LARGE_FROM_GPUS, PastJob, peak_gpus


def ended_since(moment: datetime) -> list[model.Ended]:
    """Return waiting time and age of the jobs that ended after `moment`, for RAQLR."""
    rows = Job.objects.runnable().filter(ended_at__gt=moment, age_s__gt=0, state__in=FINAL)
    return [
        model.Ended(ended_s=ended_at.timestamp(), wait_s=waited_s, age_s=age_s, array=array)
        for ended_at, waited_s, age_s, array in rows.values_list("ended_at", "waited_s", "age_s", "array_id")
    ]


PAST_FIELDS = (
    *("ran_s", "started_at", "ended_at", "expected_duration_s"),
    *("owner_id", "tenant_id", "category", "model", "gpus_least"),
)


def runs_load() -> tuple[Ran, ...]:
    """Return the run times of the latest HISTORY_JOBS completed jobs, oldest first (section 3), and among them those of jobs that
    ran longer than declared, however they ended: one who lets each job fail would be believed for ever. One query.

    A job's run time is that of its attempts: in between it waited, and without records of them it is taken as one.
    """
    rows = list(
        Job.objects.runnable()
        .filter(
            Q(state=JobState.COMPLETED) | Q(state__in=FINAL, ran_s__gt=F("expected_duration_s")),
            started_at__isnull=False,
            ended_at__isnull=False,
            link_probe=None,
        )
        .order_by("-ended_at", "-pk")
        .values_list(*PAST_FIELDS, "state", "time_limit_s")[:HISTORY_JOBS]
    )
    return tuple(
        Ran(ran_s or max(0.0, (ended_at - started_at).total_seconds()), *of_job)._replace(
            completed=state == JobState.COMPLETED, limit_s=limit_s
        )
        for ran_s, started_at, ended_at, *of_job, state, limit_s in reversed(rows)
    )


def history_load() -> model.RunHistory:
    """Return the history of the latest completed jobs. It is made again only when another job has ended."""
    return _learned(runs_load())


@lru_cache(maxsize=1)
def _learned(runs: tuple[Ran, ...]) -> model.RunHistory:
    record = Record()
    for run in runs:
        record.learn(run)
    return record.history


def array_history_read(*, now: datetime, days: float = 7) -> dict[str, Any]:
    """Return a round's figures of the last `days`: `large_gpus_peak` and `tuned_cores_per_gpu`. Three queries.

    The peak is the most GPUs that jobs of 4 or more held plus queued at one time, None where no GPU job was there at all; a
    job counts with the smallest size that it accepts, as everywhere when it waits. The tuned numbers are those of the jobs
    that were tuned in that time.
    """
    since = now - timedelta(days=days)
    jobs = Job.objects.runnable().filter(Q(ended_at=None) | Q(ended_at__gt=since), gpus_least__gt=0).order_by()
    large = jobs.filter(gpus_least__gte=LARGE_FROM_GPUS).values_list("submitted_at", "ended_at", "gpus_least")
    past = (
        PastJob(queued.timestamp(), ended.timestamp() if ended else None, gpus)
        for queued, ended, gpus in large.iterator()
    )
    peak = peak_gpus(past) or (0 if jobs.exists() else None)
    return {"large_gpus_peak": peak, "tuned_cores_per_gpu": cores_tuned_since(since)}


def array_history_now() -> model.ArrayHistory:
    """Return the present round's figures; none before the first round."""
    kept = Round.objects.order_by("-number").values_list("array_history", flat=True).first() or {}
    return model.ArrayHistory(
        tuned_cores_per_gpu=tuple(kept.get("tuned_cores_per_gpu", ())), large_gpus_peak=kept.get("large_gpus_peak")
    )
