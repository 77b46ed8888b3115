"""The divisors of the arrays (algorithms, section 4): the last week, read once a round, so that no border moves in one."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q

from portal.planning.rounds.models import Round
from portal.work.jobs.models import Job
from portal.work.jobs.services.tuning import cores_tuned_since
from scheduler import model
from scheduler.fairness.arrays import LARGE_FROM_GPUS, PastJob, peak_gpus


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
