"""Figures of a simulation in rounds."""

from __future__ import annotations

from statistics import fmean, median
from typing import TYPE_CHECKING

from scheduler.simulator.report import quantile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from research.simulator.sia_rounds.job import RoundJob
    from research.simulator.sia_rounds.speeds import Places


def figures(jobs: Sequence[RoundJob], places: Places) -> dict[str, float | None]:
    """Of jobs that have all ended: hours, latency ratios, restarts. Makespan: from time 0 to the last end."""
    lived_s = [(job.ended_s or 0.0) - job.submitted_s for job in jobs]
    ratios = [job.waited_s / age_s(job, places) for job in jobs]
    p99_s = quantile(lived_s, 0.99)
    return {
        "mean_jct_h": fmean(lived_s) / 3600,
        "median_jct_h": median(lived_s) / 3600,
        "p99_jct_h": None if p99_s is None else p99_s / 3600,
        "makespan_h": max(job.ended_s or 0.0 for job in jobs) / 3600,
        "mean_wait_h": fmean(job.waited_s for job in jobs) / 3600,
        "mean_lr": fmean(ratios),
        "max_lr": max(ratios),
        "restarts_a_job": fmean(job.restarts for job in jobs),
        "gpu_h": sum(job.gpu_s for job in jobs) / 3600,
    }


def age_s(job: RoundJob, places: Places) -> float:
    """Hops' eq. 9 with the true speeds of the first epoch: its time on the mean of its sizes, over the GPUs of each type."""
    training = job.training
    sizes = places.every_size(max(map(training.room, places.kinds)))
    mean = fmean(sizes)
    nearest = min(sizes, key=lambda size: (abs(size - mean), size))
    total = sum(map(places.all_gpus, places.kinds))
    return sum(
        places.all_gpus(each) / total * training.ends[-1] * nearest / (training.best(each, shape, 0)[0] * mean)
        for each in places.kinds
        if (shape := places.filled(each, nearest))
    )
