"""Queue priorities (algorithms.md section 3), one interface, larger is sooner; and the order they give.

A tenant may give its jobs a `priority`. It orders that tenant's jobs among themselves, before LR, and never moves a job of
another tenant: the places that the tenant's jobs have in the queue stay the same, and only which of its jobs stands in which
place changes. The weight in the ILP belongs to the place. Otherwise a job that its tenant moved up would be outbid by the job
that it passed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice
from operator import lt
from typing import TYPE_CHECKING, Protocol

import numpy as np

from scheduler.estimator.lengths import PATIENCE_S, trusts_of
from scheduler.fairness.lrf import Age, ages_of, latency_ratio
from scheduler.model import Alike, Job, Queue, Ranked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Moment:
    """The basis of priorities: the snapshot's time, the GPUs on nodes that are up, and how many jobs wait or run."""

    now_s: float
    gpus: int = 1
    jobs: int = 1


class Priority(Protocol):
    """A job's priority at a moment, its expected run time being `age_s`; larger is sooner."""

    def __call__(self, job: Job, moment: Moment, age_s: float) -> float: ...


def first_in_first_out(job: Job, moment: Moment, age_s: float) -> float:
    """FIFO: seconds since submission."""
    return moment.now_s - job.submitted_s


def latency_ratio_first(job: Job, moment: Moment, age_s: float) -> float:
    """LRF: the latency ratio, so that the job goes first that waited longest for its length (Hops eq. 8)."""
    return latency_ratio(job.wait_s, age_s)


def latency_ratio_as_known(job: Job, moment: Moment, age_s: float) -> float:
    """LRF where ages are known, the fewest GPUs first where they are not: `order` tempers it by how sure each age is."""
    return latency_ratio(job.wait_s, age_s)


def shortest_job_first(job: Job, moment: Moment, age_s: float) -> float:
    """SJF: the expected run time, negated."""
    return -age_s


def shortest_remaining_first(job: Job, moment: Moment, age_s: float) -> float:
    """SRTF: the rest of the expected run time, negated."""
    return -_remaining_s(job, age_s)


def least_attained_service(job: Job, moment: Moment, age_s: float) -> float:
    """LAS: the GPU-seconds it has had so far, negated (Tiresias' 2D-LAS without its discrete queues)."""
    return -job.attained_gpu_s


def finish_time_fairness(job: Job, moment: Moment, age_s: float) -> float:
    """FTF: rho = T_shared / T_ideal (Themis): from submission to its expected end, over its time on 1/N of the cluster.

    T_shared counts on the rest being run at the mean requirement from now on. On its own 1/N a job uses at most its
    largest requirement; a part of a GPU means turns on one. A CPU job's ideal is its expected run time: its cores.
    """
    shared_s = max(0.0, moment.now_s - job.submitted_s) + _remaining_s(job, age_s)
    if job.is_cpu:
        return shared_s / age_s
    own_gpus = min(job.requirement[-1], max(1, moment.gpus) / max(1, moment.jobs))
    work_gpu_s = age_s * sum(job.requirement) / len(job.requirement)
    return shared_s * own_gpus / work_gpu_s


def _remaining_s(job: Job, age_s: float) -> float:
    return age_s * (1.0 - min(1.0, max(0.0, job.done_fraction)))


PRIORITIES: Mapping[str, Priority] = {
    "lrf": latency_ratio_first,
    "fifo": first_in_first_out,
    "sjf": shortest_job_first,
    "srtf": shortest_remaining_first,
    "las": least_attained_service,
    "ftf": finish_time_fairness,
}


COLUMNS_FROM = 1000
"""From this number of jobs on a queue has columns: for a short one they would cost more than they spare."""

LEAST_LR = 0.01
"""A latency ratio that is a guess counts as no less, so that who just came weighs something."""

LEAST_TRUST = 0.33
"""However bad a guess is, its latency ratio orders to this power: a large job is not passed by newcomers for ever."""

LR_CAP = 100.0
"""Section 3: in the objective a latency ratio counts up to this; not in the order, and not on the pages."""


def order(jobs: Sequence[Job], priority: Priority, moment: Moment, age: Callable[[Job], Age]) -> list[Ranked]:
    """The queue, first job first, ranks from 1. `prior` weighs in the objective, where LR counts up to LR_CAP only.

    Ties: earliest submission, then id.
    """
    known = ages_of(jobs, age)
    ages_s = np.array(known.ages_s, dtype=np.float64)
    waits_s = np.array([job.wait_s for job in jobs], dtype=np.float64)
    ratios = waits_s / ages_s
    priors, cap = ratios, LR_CAP
    if priority not in (latency_ratio_first, latency_ratio_as_known):
        own = (priority(job, moment, age_s) for job, age_s in zip(jobs, known.ages_s, strict=True))
        priors, cap = np.fromiter(own, np.float64, len(jobs)), math.inf
    ids = [job.id for job in jobs]
    spreads, firsts = np.array(known.spreads, dtype=np.float64), priors
    if priority is latency_ratio_as_known:
        priors, firsts = _tempered(jobs, priors, spreads, waits_s)
    places = _places(jobs, ids, firsts)
    turns = _within_tenants(places, jobs)
    at = turns.tolist()
    # One pass in C, over figures that lie side by side in the order of the queue.
    figures = (each.tolist() for each in (np.minimum(cap, priors)[places], ratios[turns], ages_s[turns]))
    beside = (*figures, map(known.sources.__getitem__, at), spreads[turns].tolist())
    queue = map(Ranked, map(jobs.__getitem__, at), range(1, len(jobs) + 1), *beside)
    if len(jobs) < COLUMNS_FROM or (numbers := np.array(ids)).dtype != np.int64:  # ids may be any numbers
        return list(queue)
    kinds: dict[Alike, int] = {}
    columns = {
        "ids": numbers,
        "kinds": np.fromiter((kinds.setdefault(job.alike, len(kinds)) for job in jobs), np.int64, len(jobs)),
        "waits_s": waits_s,
        "spreads": spreads,
        "gave_back": np.fromiter((job.gave_back for job in jobs), bool, len(jobs)),
    }
    return Queue(queue, {name: each[turns] for name, each in columns.items()})


def _tempered(
    jobs: Sequence[Job], ratios: np.ndarray, spreads: np.ndarray, waits_s: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The priors of jobs by the certainty of their ages, and the figures that order them (algorithms.md section 3).

        known (t = 1):    prior = LR    first = LR                           t = min(1, certainty / SURE)
        guessed:          prior = M     first = LR^t * M^(1-t) / R_1         t = at least LEAST_TRUST
                                                                             M: the median LR of those known, 1 without any

    A latency ratio over a guessed age says little more than "waited longest". As a weight it would take GPUs from running elastic
    jobs for those who happened to wait; in the queue's order it keeps who waits from being passed for ever, and among jobs that
    nobody knows those that ask for the fewest GPUs end the most waits. After `PATIENCE_S` R_1 counts as 1.
    """
    trust = trusts_of(spreads)
    known = trust >= 1.0
    if known.all():
        return ratios, ratios
    usual = max(LEAST_LR, float(np.median(ratios[known]))) if known.any() else 1.0
    gpus = np.fromiter((max(1, job.requirement[0]) for job in jobs), np.float64, len(jobs))
    gpus[waits_s >= PATIENCE_S] = 1.0
    waited = np.maximum(LEAST_TRUST, trust)
    guessed = np.maximum(LEAST_LR, ratios) ** waited * usual ** (1.0 - waited)
    return np.where(known, ratios, usual), np.where(known, ratios, guessed / gpus)


def _places(jobs: Sequence[Job], ids: Sequence[int], priors: np.ndarray) -> np.ndarray:
    """The places in `jobs` of the first in the queue, the second, and so on."""
    submitted = np.fromiter((job.submitted_s for job in jobs), np.float64, len(jobs))
    keys = (submitted, -priors)
    if all(map(lt, ids, islice(ids, 1, None))):
        return np.lexsort(keys)  # it leaves in their order those that are equal
    last = np.empty(len(ids), dtype=np.int64)
    last[sorted(range(len(ids)), key=ids.__getitem__)] = np.arange(len(ids))
    return np.lexsort((last, *keys))


def _within_tenants(places: np.ndarray, jobs: Sequence[Job]) -> np.ndarray:
    """The places in `jobs` after each tenant's places were given to its jobs by the tenant's own priority, then as before."""
    prefers = {job.tenant for job in jobs if job.priority}
    if not prefers:
        return places
    by_tenant: dict[int, list[int]] = {tenant: [] for tenant in prefers}
    for place in places.tolist():
        if (tenant := jobs[place].tenant) in prefers:
            by_tenant[tenant].append(place)
    turns = {tenant: iter(sorted(own, key=lambda each: -jobs[each].priority)) for tenant, own in by_tenant.items()}
    moved = (next(turns[jobs[place].tenant]) if jobs[place].tenant in prefers else place for place in places.tolist())
    return np.fromiter(moved, np.int64, len(places))
