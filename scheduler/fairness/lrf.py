"""Latency ratio fairness (Hops 3.6, eq. 6-9; algorithms.md section 3): how long a job waits against how long it runs.

    LR_i  = wait_i / age_i
    age_i = sum_j P(type = j) * total_samples_i / (throughput_ij * R_avg_i)      P(type = j) = N_j / N (GPUs)

P is renormalised over the types the job may use, R_avg is the mean of its requirement set, throughput is per GPU.
Without samples `age` is the first known of: the declared duration times the owner's median actual/declared ratio
(clipped to 0.2-5, so that under-declaring does not pay), the median run time of the tenant's jobs of the category, of
the category, of the cluster, one hour. Never less than one tick; by samples ten years at most.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from scheduler.errors import InvalidJob

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from scheduler.model import Job, RunHistory

RATIO_LOW, RATIO_HIGH = 0.2, 5.0
LAST_RESORT_S = 3600.0
LONGEST_S = 10 * 366 * 86_400.0
"""Ten years. A job may claim any amount of work, and a job that waits for its end shows a date."""
HISTORY_JOBS = 2000
"""The medians are over this number of the latest completed jobs; a driver reads or keeps them."""
DECLARED = "declared"
BY_SAMPLES = "samples"
FIXED = "fixed at first start"
OF_TENANT = "tenant's jobs of the category"


class Age(NamedTuple):
    """Expected run time without waiting, and which rule gave it (shown on the job's page)."""

    age_s: float
    source: str


def latency_ratio(wait_s: float, age_s: float) -> float:
    """LR; the age is at least a tick, so this is always finite."""
    return wait_s / age_s


def age_of(
    job: Job,
    history: RunHistory,
    *,
    tick_s: float,
    samples_per_s: Mapping[str, float] | None = None,
    gpus_by_type: Mapping[str, int] | None = None,
) -> Age:
    """The job's age. `samples_per_s`: measured or modelled per-GPU throughput by type, where an estimator knows it.

    It is fixed at the first start; if nothing was known of the job's speed then, that age gives way once something is.
    """
    if job.age_s is not None and not job.age_guessed:
        return Age(min(max(job.age_s, tick_s), LONGEST_S), FIXED)
    modelled = None
    if job.total_samples is not None:
        modelled = age_from_samples(job, samples_per_s or {}, gpus_by_type or {})
    if modelled is not None:
        return Age(min(max(modelled, tick_s), LONGEST_S), BY_SAMPLES)
    age_s, source = _from_history(job, history) if job.age_s is None else (job.age_s, FIXED)
    return Age(max(age_s, tick_s), source)


def is_guess(total_samples: float | None, source: str) -> bool:
    """Whether an age is to give way as soon as the speed of a job that tells its samples is known. `source`: the age's."""
    return total_samples is not None and source != BY_SAMPLES


def ages(
    history: RunHistory,
    *,
    tick_s: float,
    samples_per_s: Callable[[Job], Mapping[str, float]],
    gpus_by_type: Mapping[str, int],
) -> Ages:
    """`age_of` with everything but the job given: the same answers, and faster for a long queue."""

    def age(job: Job) -> Age:
        known = {} if job.total_samples is None else samples_per_s(job)
        return age_of(job, history, tick_s=tick_s, samples_per_s=known, gpus_by_type=gpus_by_type)

    return Ages({owner: _clipped(ratio) for owner, ratio in history.declared_ratio.items()}, tick_s, age)


class Ages:
    """Jobs' ages. Most have a declared duration and nothing better: those are answered here, by `ratios` of owners."""

    def __init__(self, ratios: Mapping[int, float], tick_s: float, other: Callable[[Job], Age]) -> None:
        self._ratios, self._tick_s, self._other = ratios, tick_s, other

    def __call__(self, job: Job) -> Age:
        declared_s = job.expected_duration_s
        if declared_s is None or job.age_s is not None or job.total_samples is not None:
            return self._other(job)
        age_s = declared_s * self._ratios.get(job.tenant if job.owner is None else job.owner, 1.0)
        return Age(max(age_s, self._tick_s), DECLARED)

    def of_all(self, jobs: Sequence[Job]) -> ManyAges:
        ratios, tick_s, ages_s, sources = self._ratios, self._tick_s, [], [DECLARED] * len(jobs)
        for place, job in enumerate(jobs):  # there may be 100 000
            declared_s = job.expected_duration_s
            if declared_s is None or job.age_s is not None or job.total_samples is not None:
                age_s, sources[place] = self._other(job)
            else:
                age_s = declared_s * ratios.get(job.tenant if job.owner is None else job.owner, 1.0)
                age_s = max(tick_s, age_s)
            ages_s.append(age_s)
        return ManyAges(ages_s, sources)


class ManyAges(NamedTuple):
    """The ages of jobs in a row: seconds, and which rule gave each."""

    ages_s: list[float]
    sources: list[str]


def ages_of(jobs: Sequence[Job], age: Callable[[Job], Age]) -> ManyAges:
    if isinstance(age, Ages):
        return age.of_all(jobs)
    each = [age(job) for job in jobs]
    return ManyAges([own.age_s for own in each], [own.source for own in each])


def age_from_samples(job: Job, samples_per_s: Mapping[str, float], gpus_by_type: Mapping[str, int]) -> float | None:
    """Eq. 9 over the types that the job may use, that exist and whose throughput is known; None when there is none."""
    if job.total_samples is None or job.is_cpu:
        return None
    counts = {
        name: count for name, count in gpus_by_type.items() if count and name in samples_per_s and job.may_use(name)
    }
    for name in counts:
        if not (math.isfinite(samples_per_s[name]) and samples_per_s[name] > 0):
            raise InvalidJob(job.id, f"throughput on {name} is {samples_per_s[name]}; it must be a number above 0")
    if not counts:
        return None
    mean_requirement = sum(job.requirement) / len(job.requirement)
    return math.fsum(
        count / sum(counts.values()) * job.total_samples / (samples_per_s[name] * mean_requirement)
        for name, count in counts.items()
    )


def _clipped(ratio: float) -> float:
    return min(RATIO_HIGH, max(RATIO_LOW, ratio))


def _from_history(job: Job, history: RunHistory) -> tuple[float, str]:
    if job.expected_duration_s is not None:
        ratio = history.declared_ratio.get(job.tenant if job.owner is None else job.owner, 1.0)
        return job.expected_duration_s * _clipped(ratio), DECLARED
    medians = (
        (history.tenant_category_s.get((job.tenant, job.category)), OF_TENANT),
        (history.category_s.get(job.category), "jobs of the category"),
        (history.cluster_s, "jobs of the cluster"),
    )
    return next(((age_s, source) for age_s, source in medians if age_s is not None), (LAST_RESORT_S, "assumed"))
