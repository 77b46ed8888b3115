"""Invariant 11, checked from outside: GPUs that a plan leaves idle although a waiting job fits them (algorithms.md section 4).

A job *fits* when one of its sizes could start on idle resources: GPU type, `least_cores` per GPU, memory, its tenant's quota,
storage domain, trust. GPUs that a promise or a reservation keeps do not count as idle. A job that is being profiled does
not count as waiting. The check reads the ledger and the decisions of the finished plan. It shares no code with the sweep,
so that a fault of the sweep is seen here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scheduler.model import Decision, Job, Reason, Reservation, Result
from scheduler.placement.feasibility import ties_allowed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from scheduler.estimator.estimator import Estimator
    from scheduler.placement.ledger import Ledger

    Shape = tuple[object, ...]

APART = frozenset(
    {Reason.HELD, Reason.DEPENDENCY, Reason.RESTORED, Reason.INVALID, Reason.PROFILING, Reason.NO_SHARED_GPU}
)
"""A job that waits for one of these reasons would not start on any idle GPU now."""


@dataclass(frozen=True, slots=True)
class Beside:
    """Idle GPUs on nodes where a waiting job could have started, and of each kind of such jobs the one that asks for least."""

    gpus: int
    jobs: tuple[int, ...]


NOTHING = Beside(0, ())


class _Nodes:
    """Nodes with idle GPUs that no promise keeps, as arrays."""

    def __init__(self, ledger: Ledger) -> None:
        self.capacities = [free for free in ledger.free.values() if free.gpus]
        self.gpus = np.array([len(free.gpus) for free in self.capacities], dtype=np.int64)
        self.cores = np.array([len(free.cores) for free in self.capacities], dtype=np.int64)
        self.memory = np.array([free.memory_mib for free in self.capacities], dtype=np.int64)
        self.types = [free.node.gpu_type or "" for free in self.capacities]
        self._exclusive = any(free.node.exclusive_tenant for free in self.capacities)
        self._open: dict[Shape, np.ndarray] = {}

    def open_to(self, job: Job, barred: Collection[int]) -> np.ndarray:
        tenant = job.tenant if self._exclusive else None
        kind = (job.gpu_types, job.bound, tenant, frozenset(barred))
        if kind not in self._open:
            self._open[kind] = np.array(
                [
                    job.may_use(name)
                    and free.node.id not in barred
                    and ties_allowed(job, free.node)
                    and (not free.node.exclusive_tenant or free.tenants <= {job.tenant})
                    for free, name in zip(self.capacities, self.types, strict=True)
                ],
                dtype=bool,
            )
        return self._open[kind]

    def holding(self, job: Job, barred: Collection[int], *, spread_over: Collection[str]) -> np.ndarray:
        """The nodes on which the job's smallest size could start, each by itself or (on these types) together."""
        size, least = job.min_gpus, job.least_cores
        usable = self.open_to(job, barred)
        whole = usable & (self.gpus >= size) & (self.cores >= size * least) & (self.memory >= job.memory_mib)
        parts = np.minimum(np.minimum(self.gpus, self.cores // least), size) * usable
        if job.memory_mib:
            parts = np.minimum(parts, self.memory * size // job.memory_mib)
        for name in spread_over:
            own = np.array([each == name for each in self.types], dtype=bool)
            if int(parts[own].sum()) >= size:
                whole = whole | (own & (parts > 0))
        return whole


def beside_fitting(
    waiting: Iterable[tuple[Job, Decision]],
    ledger: Ledger,
    reservations: Sequence[Reservation],
    estimator: Estimator,
    *,
    sigma: float,
    now_s: float,
) -> Beside:
    """GPUs that the plan leaves idle although these jobs of its queue wait. `ledger`: without promised resources."""
    if not any(free.gpus and free.cores for free in ledger.free.values()):
        return NOTHING
    nodes = _Nodes(ledger)
    idle = np.zeros(len(nodes.capacities), dtype=bool)
    jobs: list[int] = []
    for job, bars in _humblest(waiting, int(nodes.gpus.sum()), ledger, reservations, estimator, sigma, now_s):
        barred = {node for kept, bar in zip(reservations, bars, strict=True) if bar for node in kept.nodes}
        insensitive = estimator.sensitivity(job) <= sigma
        types = {name for name in set(nodes.types) if insensitive or job.min_gpus > ledger.largest.get(name, 0)}
        held = nodes.holding(job, barred, spread_over=types)
        if held.any():
            idle |= held
            jobs.append(job.id)
    return Beside(int(nodes.gpus[idle].sum()), tuple(jobs)) if jobs else NOTHING


def _humblest(
    waiting: Iterable[tuple[Job, Decision]],
    total: int,
    ledger: Ledger,
    reservations: Sequence[Reservation],
    estimator: Estimator,
    sigma: float,
    now_s: float,
) -> Iterable[tuple[Job, tuple[bool, ...]]]:
    """The job of each kind that asks for least memory, and for each reservation whether it bars the job.

    Jobs of one kind differ only in memory, so that this job fits wherever another of its kind does. A queue may have
    100 000 different amounts of memory.
    """
    keepers = {each.job for each in reservations}
    strangers = estimator.signatures == frozenset()  # nothing was measured: two jobs of one kind have the same speed
    least: dict[Shape, tuple[Job, tuple[bool, ...]]] = {}
    for job, decision in _asking_less(waiting) if strangers and not reservations else waiting:
        ends_s = now_s + (decision.age_s or 0.0)
        bars = tuple(each.job != job.id and ends_s > each.until_s for each in reservations) if reservations else ()
        own = job.id in keepers or (not strangers and job.model_label is None and estimator.is_known(job))
        asked = (job.requirement[0], job.gpu_types, job.bound, job.least_cores, job.tenant)
        kind = (bars, *asked, job.model_label, job.id if own else 0)
        known = least.get(kind)
        if known is not None and known[0].memory_mib <= job.memory_mib:
            continue
        if job.requirement[0] <= total and not job.is_cpu and job.part is None and _would_start(decision):
            least[kind] = job, bars
    return _one_of_each_kind(least, ledger, estimator, sigma)


def _asking_less(waiting: Iterable[tuple[Job, Decision]]) -> Iterator[tuple[Job, Decision]]:
    """The jobs that ask for less memory than all jobs of their kind before them: few of a long queue.

    This holds only without reservations and measured speeds.
    """
    least: dict[Shape, int] = {}
    for job, decision in waiting:
        asked = (job.requirement, job.gpu_types, job.checkpoint_domain, job.software, job.least_cores, job.tenant)
        kind = (*asked, job.open_until_s, job.model_label)
        if job.memory_mib < least.get(kind, job.memory_mib + 1) and _would_start(decision):
            least[kind] = job.memory_mib
            yield job, decision


def _would_start(decision: Decision) -> bool:
    """Whether the job waits for idle GPUs; one with a promise starts elsewhere."""
    return decision.reason not in APART and decision.result is Result.WAITING and "promised" not in decision.figures


def _one_of_each_kind(
    least: Mapping[Shape, tuple[Job, tuple[bool, ...]]], ledger: Ledger, estimator: Estimator, sigma: float
) -> Iterable[tuple[Job, tuple[bool, ...]]]:
    """One job of each kind that is within its quota. Jobs that may be spread over nodes are a kind of their own."""
    found: dict[Shape, tuple[Job, tuple[bool, ...]]] = {}
    for parts, (job, bars) in least.items():
        if ledger.over_quota(job) is None:
            same = (*parts[:6], estimator.sensitivity(job) <= sigma)
            if same not in found or job.memory_mib < found[same][0].memory_mib:
                found[same] = job, bars
    return found.values()
