"""A planning's results in figures (Hops eq. 7, CODA VI; algorithms.md sections 3 and 10).

- active rate = allocated / total; utilisation = the mean over the active ones;
- RAQLR(h) = mean LR of the m jobs that ended in the last h hours, None for m = 0. Ours: the tasks of an array are one job, with
  the mean of their LRs; otherwise one array of 200 short tasks would hide all other jobs;
- fragments = idle GPUs while an eligible job waits. Each is counted once, in the first kind that fits. *Kept* (ours): some
  waiting job would fit its node if it were not reserved or promised to another job. Kind 1: some waiting job's configuration
  would fit its node if there were enough cores. Kind 2: some waiting R_1 is at most the number of idle GPUs of its type, but
  they are not where (or, outside the window, when) the job could use them. Other idle GPUs have no demand and are no fragments;
- a round's figures are time-weighted means over its plannings. The figures of a planning hold until the next planning.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import mul
from typing import TYPE_CHECKING

from scheduler.copies import replace
from scheduler.fairness.lrf import latency_ratio
from scheduler.model import Ended, Figures, Job, Node
from scheduler.model.placements import serves
from scheduler.placement.feasibility import Level, aggregated_gpus, distributed_gpus, possible, usable

if TYPE_CHECKING:
    from scheduler.placement.free_capacity import Offer
    from scheduler.placement.ledger import Ledger

ROUND_MEANS = (
    "gpu_active_rate",
    "cpu_active_rate",
    "utilisation",
    "cpu_utilisation",
    "queue_length",
    "fragments_cores",
    "fragments_scattered",
    "fragments_kept",
    "fragment_rate",
    "live_lr_mean",
)
"""Figures of a planning whose time-weighted mean a round has; the utilisations are measured, so their driver adds them."""

NOBODYS: Mapping[int, int] = {}


@dataclass(frozen=True, slots=True)
class Fragments:
    """Idle GPUs that an eligible waiting job could have used, by kind."""

    short_of_cores: int
    scattered: int
    kept: int = 0

    @property
    def total(self) -> int:
        return self.short_of_cores + self.scattered + self.kept


def rate(part: int, whole: int) -> float | None:
    """The part of the whole; None when there is nothing."""
    return part / whole if whole else None


def raqlr(ended: Iterable[Ended], now_s: float, hours: float) -> tuple[float | None, int]:
    """RAQLR(h) and its m (Hops eq. 7); the tasks of an array are one job, with their mean."""
    return raqlr_course(ended, [now_s], hours)[0]


def raqlr_course(ended: Iterable[Ended], moments: Sequence[float], hours: float) -> list[tuple[float | None, int]]:
    """RAQLR(h) and its m at each of the moments, which ascend, in one pass."""
    jobs = sorted(ended, key=lambda each: each.ended_s)
    window, first, last = _Means(), 0, 0
    course: list[tuple[float | None, int]] = []
    for moment in moments:
        while last < len(jobs) and jobs[last].ended_s <= moment:
            window.count(jobs[last], 1)
            last += 1
        while first < last and jobs[first].ended_s <= moment - hours * 3600:
            window.count(jobs[first], -1)
            first += 1
        course.append(window.mean())
    return course


class _Means:
    """The mean LR over jobs that come and go, where the tasks of an array are one job: sum and number of LRs by array."""

    def __init__(self) -> None:
        self._arrays: dict[int, tuple[float, int]] = {}
        self._total, self._jobs = 0.0, 0

    def count(self, each: Ended, sign: int) -> None:
        ratio = latency_ratio(each.wait_s, each.age_s) * sign
        if each.array is None:
            self._total, self._jobs = self._total + ratio, self._jobs + sign
            return
        whole, tasks = self._arrays.pop(each.array, (0.0, 0))
        if tasks + sign:
            self._arrays[each.array] = (whole + ratio, tasks + sign)

    def mean(self) -> tuple[float | None, int]:
        jobs = self._jobs + len(self._arrays)
        if not jobs:
            return None, 0
        return (self._total + math.fsum(whole / tasks for whole, tasks in self._arrays.values())) / jobs, jobs


def live_latency_ratio(ratios: Sequence[float]) -> tuple[float | None, float | None]:
    """Mean and maximum LR of the eligible jobs that still wait."""
    return (sum(ratios) / len(ratios), max(ratios)) if ratios else (None, None)


def allocated(nodes: Iterable[Node], ledger: Ledger) -> tuple[int, int]:
    """GPUs and cores held after the plan. On a node that gets no new jobs what is not idle in the snapshot is held.

    Shared GPUs are not among them: a planning counts those by itself.
    """
    gpus = cores = 0
    for node in nodes:
        free = ledger.free.get(node.id)
        gpus += node.gpus_total - len(free.gpus if free else node.idle_gpus)
        cores += node.cores_total - len(free.cores if free else node.idle_cores)
    return gpus, cores


def fragments(waiting: Iterable[Job], ledger: Ledger, reserved: Mapping[int, int] = NOBODYS) -> Fragments:
    """The fragments of all kinds, for the eligible jobs that the plan leaves waiting, on the ledger that it leaves.

    `ledger`: promised resources are withheld there; `reserved`: node -> the job that it is reserved for.
    """
    kept_on = {number: len(free.kept.gpus) for number, free in ledger.free.items() if free.kept.gpus}
    kept_on |= {node: len(free.gpus) + len(free.kept.gpus) for node in reserved if (free := ledger.free.get(node))}
    ledger = ledger.with_kept() if kept_on else ledger
    jobs = [job for job in {job.alike: job for job in waiting}.values() if not job.is_cpu]  # the last of each kind
    every = [offer for offer in ledger.idle_offers() if offer.gpus]
    kept = {
        offer.node.id: kept_on[offer.node.id]
        for offer in every
        if kept_on.get(offer.node.id)
        and any(
            job.id != reserved.get(offer.node.id)
            and usable(job, offer, Level.TRUST)
            and aggregated_gpus(job, offer) >= job.min_gpus
            for job in jobs
        )
    }
    offers = [left for each in every if (left := replace(each, gpus=each.gpus - kept.get(each.node.id, 0))).gpus]
    idle = _by_type(every)
    wanting = wanted_types({(job.min_gpus, job.gpu_types) for job in jobs}, idle)
    most = max((job.least_cores for job in jobs), default=1)
    short = [offer for offer in offers if offer.cores < offer.gpus * most and offer.node.gpu_type in wanting]
    humblest = _humblest(jobs)
    short_of_cores = sum(
        offer.gpus for offer in short if any(_fits_but_for_cores(job, offer, offers, ledger) for job in humblest)
    )
    wanted, held_back = sum(idle[name] for name in wanting), sum(kept.values())
    return Fragments(short_of_cores, wanted - short_of_cores - held_back, held_back)


def _humblest(jobs: Iterable[Job]) -> list[Job]:
    """The job that asks for least memory, of those that differ only in memory or in wanted cores.

    Where any of them lacks only cores, so does it. A queue may have 100 000 amounts of memory.
    """
    least: dict[tuple[object, ...], Job] = {}
    for job in jobs:
        kind = (job.requirement, job.gpu_types, job.least_cores, job.bound, job.tenant)
        known = least.get(kind)
        if known is None or job.memory_mib < known.memory_mib:
            least[kind] = job
    return list(least.values())


def _by_type(offers: Iterable[Offer]) -> dict[str | None, int]:
    idle: dict[str | None, int] = {}
    for offer in offers:
        idle[offer.node.gpu_type] = idle.get(offer.node.gpu_type, 0) + offer.gpus
    return idle


def wanted_types(asked: Collection[tuple[int, frozenset[str]]], idle: Mapping[str | None, int]) -> set[str | None]:
    """The types of which some are idle and a waiting job's R_1 is at most that. `asked`: R_1 and allowed types of those.

    All that is idle of these types is a fragment of one kind or the other.
    """
    return {
        name
        for name, gpus in idle.items()
        if gpus and any(least <= gpus and serves(types, name) for least, types in asked)
    }


def _fits_but_for_cores(job: Job, offer: Offer, offers: Sequence[Offer], ledger: Ledger) -> bool:
    """Whether one of the job's configurations with a part on the node fails only for the node's cores, `least_cores` per GPU."""
    if not usable(job, offer, Level.TRUST):
        return False
    if job.min_gpus > ledger.largest.get(offer.node.gpu_type or "", 0):
        alike = [each for each in offers if each.node.gpu_type == offer.node.gpu_type]
        part = distributed_gpus(job, offer, job.min_gpus, Level.MEMORY)
        return offer.cores < part * job.least_cores and possible(job, alike, Level.MEMORY, ledger.largest)
    fitting = aggregated_gpus(job, offer, Level.MEMORY)
    return any(size <= fitting and offer.cores < size * job.least_cores for size in job.requirement)


def _weighted(lengths: Sequence[float], values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        lengths = [length_s for length_s, value in zip(lengths, values, strict=True) if value is not None]
    whole_s = math.fsum(lengths)
    if not whole_s:
        return known[-1] if known else None
    return math.fsum(map(mul, lengths, known)) / whole_s


def means_over(
    plannings: Sequence[tuple[float, Figures]], until_s: float, names: Iterable[str], *, hold_s: float = math.inf
) -> dict[str, float | None]:
    """The time-weighted means of these figures of plannings, (seconds, figures by name), ascending, until then."""
    begins_s = [at_s for at_s, _ in plannings]
    ends_s = [*begins_s, until_s][1:]
    lengths = [min(hold_s, max(0.0, end_s - at_s)) for at_s, end_s in zip(begins_s, ends_s, strict=True)]
    return {name: _weighted(lengths, [each.get(name) for _, each in plannings]) for name in names}


def over_round(
    plannings: Sequence[tuple[float, Figures]], until_s: float, *, hold_s: float = math.inf
) -> dict[str, float | None]:
    """A round's figures from those of its plannings, (seconds, `Metrics` by name), ascending, to the round's end.

    Of ROUND_MEANS the time-weighted mean, of the largest live LR and of the fragments the largest (`fragments_most`). RAQLR
    looks back by itself: its last.
    """
    figures = means_over(plannings, until_s, ROUND_MEANS, hold_s=hold_s)
    largest = [value for _, each in plannings if (value := each.get("live_lr_max")) is not None]
    last = plannings[-1][1].get("raqlr") if plannings else None
    most = [value for _, each in plannings if (value := _fragments_most(each)) is not None]
    return {
        **figures,
        "live_lr_max": max(largest, default=None),
        "fragments_most": max(most, default=None),
        "raqlr": last,
    }


def _fragments_most(figures: Figures) -> float | None:
    """A planning's fragments of all kinds, or the most of a round's."""
    known: float | None = figures.get("fragments_most")
    cores, scattered = figures.get("fragments_cores"), figures.get("fragments_scattered")
    if known is not None or cores is None or scattered is None:
        return known
    return float(cores + scattered + (figures.get("fragments_kept") or 0))
