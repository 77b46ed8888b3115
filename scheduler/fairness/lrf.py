"""Latency ratio fairness (Hops 3.6, eq. 6-9; algorithms.md section 3): how long a job waits against how long it runs.

    LR_i  = wait_i / age_i
    age_i = sum_j P(type = j) * total_samples_i / (throughput_ij * R_avg_i)      P(type = j) = N_j / N (GPUs)

P is renormalised over the types the job may use, R_avg is the mean of its requirement set, throughput is per GPU.
Without samples `age` is the median of the job's length (`scheduler.estimator.lengths`): as its owner declared it, else as ended
jobs like it ran, else one hour. Never less than one tick; by samples ten years at most.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from scheduler.errors import InvalidJob
from scheduler.estimator.lengths import (
    DECLARED,
    LEAST_SPREAD,
    OF_LIMITS,
    OF_MODEL,
    OF_OWNER,
    OF_TENANT,
    is_sure,
    length_of,
    like_length,
    limited,
    part_used,
    told_length,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from scheduler.estimator.lengths import Length
    from scheduler.model import Job, RunHistory

LONGEST_S = 10 * 366 * 86_400.0
"""Ten years. A job may claim any amount of work, and a job that waits for its end shows a date."""
BY_SAMPLES = "samples"
FIXED = "fixed at first start"
TOLD = frozenset({FIXED, DECLARED, BY_SAMPLES, OF_TENANT, OF_OWNER, OF_LIMITS, OF_MODEL})
"""The rules of an age that know this very job, or its tenant's like it. The others are guesses."""


class Age(NamedTuple):
    """Expected run time without waiting, which rule gave it (shown on the job's page), and its spread (`estimator.lengths`)."""

    age_s: float
    source: str
    spread: float = 0.0


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

    It is fixed at the first start; if nothing was known of the job's speed then, that age gives way once something is, and it is
    never less than the job has run on its largest size. Of a job that tells its samples it has no spread: its speed is found
    out soon.
    """
    ran_s = ran_s_of(job) if job.attained_gpu_s else 0.0
    fixed_s = None if job.age_s is None else min(max(job.age_s, tick_s, ran_s), LONGEST_S)
    if job.total_samples is None:
        length = length_of(job, history).deciding
        return (
            Age(max(length.median_s, tick_s), length.source, length.spread)
            if fixed_s is None
            else Age(fixed_s, FIXED, length.spread)
        )
    if fixed_s is not None and not job.age_guessed:
        return Age(fixed_s, FIXED)
    modelled = age_from_samples(job, samples_per_s or {}, gpus_by_type or {})
    if modelled is not None:
        return Age(min(max(modelled, tick_s), LONGEST_S), BY_SAMPLES)
    if fixed_s is not None:
        return Age(fixed_s, FIXED)
    length = length_of(job, history)
    return Age(max(length.median_s, tick_s), length.source)


def ran_s_of(job: Job) -> float:
    """How long it has run at least, over all attempts: as if always on its largest size."""
    return job.attained_gpu_s / job.requirement[-1] if job.requirement[-1] else 0.0


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
    alike: dict[tuple[object, ...], Age] = {}  # of jobs that say nothing of their length there may be 100 000
    like: dict[tuple[object, ...], tuple[Length, Length | None]] = {}

    def limited_age(job: Job) -> Age:
        owner = job.tenant if job.owner is None else job.owner
        kin = (owner, job.tenant, job.category, job.model_label, job.min_gpus)
        if kin not in like:
            like[kin] = like_length(history, kin), part_used(history, owner, job.tenant)
        length = limited(*like[kin], job.limit_s)
        return Age(max(length.median_s, tick_s), length.source, max(LEAST_SPREAD, length.spread))

    def age(job: Job) -> Age:
        if job.total_samples is None and job.age_s is None:
            if job.limit_s is not None and job.expected_duration_s is None:
                return limited_age(job)
            asked = (job.owner, job.tenant, job.category, job.model_label, job.min_gpus)
            kin = (*asked, job.expected_duration_s, job.limit_s)
            if kin not in alike:
                alike[kin] = age_of(job, history, tick_s=tick_s)
            return alike[kin]
        known = {} if job.total_samples is None else samples_per_s(job)
        return age_of(job, history, tick_s=tick_s, samples_per_s=known, gpus_by_type=gpus_by_type)

    told = {owner: told_length(1.0, record) for owner, record in history.told.items()}
    return Ages({owner: own if is_sure(own.spread) else None for owner, own in told.items()}, tick_s, age)


class Ages:
    """Jobs' ages. Most have a declared duration and nothing better: those are answered here, by each owner's record (None: it
    speaks against them).
    """

    def __init__(self, told: Mapping[int, Length | None], tick_s: float, other: Callable[[Job], Age]) -> None:
        self._told, self._tick_s, self._other = told, tick_s, other

    def __call__(self, job: Job) -> Age:
        declared_s = job.expected_duration_s
        if declared_s is None or job.age_s is not None or job.total_samples is not None:
            return self._other(job)
        if (told := self._told.get(job.tenant if job.owner is None else job.owner, _AS_TOLD)) is None:
            return self._other(job)
        age_s = min(declared_s * told.median_s, job.limit_s or math.inf)
        return Age(max(age_s, self._tick_s), told.source, told.spread)

    def of_all(self, jobs: Sequence[Job]) -> ManyAges:
        told, tick_s, ages_s = self._told, self._tick_s, []
        sources, spreads = [DECLARED] * len(jobs), [_AS_TOLD.spread] * len(jobs)
        for place, job in enumerate(jobs):  # there may be 100 000
            declared_s = job.expected_duration_s
            plain = declared_s is not None and job.age_s is None and job.total_samples is None
            record = told.get(job.tenant if job.owner is None else job.owner, _AS_TOLD) if plain else None
            if declared_s is None or record is None:
                age_s, sources[place], spreads[place] = self._other(job)
            else:
                age_s, spreads[place] = declared_s * record.median_s, record.spread
                age_s = max(tick_s, min(age_s, job.limit_s or math.inf))
            ages_s.append(age_s)
        return ManyAges(ages_s, sources, spreads)


_AS_TOLD = told_length(1.0, None)


class ManyAges(NamedTuple):
    """The ages of jobs in a row: seconds, which rule gave each, and its spread."""

    ages_s: list[float]
    sources: list[str]
    spreads: list[float]


def ages_of(jobs: Sequence[Job], age: Callable[[Job], Age]) -> ManyAges:
    if isinstance(age, Ages):
        return age.of_all(jobs)
    each = [age(job) for job in jobs]
    return ManyAges([own.age_s for own in each], [own.source for own in each], [own.spread for own in each])


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
