"""Invariant 11, looked at from outside: what a plan leaves idle beside a waiting job that fits it (algorithms.md section 4).

A job *fits* when one of its sizes could start on what is idle: GPU type, `least_cores` a GPU, memory, its tenant's quota,
storage domain, trust. Idle GPUs that a promise or a reservation keeps do not count, nor those whose only takers are
being profiled. The check reads the ledger and the decisions that the plan ends with; it shares no code with the sweep, so
that a fault there shows here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scheduler.model import Reason, Result

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from scheduler.estimator.layers import Estimator
    from scheduler.fairness.reservation import Reservation
    from scheduler.model import Decision, Job
    from scheduler.placement.ledger import Ledger

    Shape = tuple[object, ...]

APART = frozenset({Reason.HELD, Reason.DEPENDENCY, Reason.RESTORED, Reason.INVALID, Reason.PROFILING})
"""Whoever waits for one of these would not start on any idle GPU now."""


@dataclass(frozen=True, slots=True)
class Beside:
    """Idle GPUs on nodes where a waiting job could have started, and one such job of each kind."""

    gpus: int
    jobs: tuple[int, ...]


NOTHING = Beside(0, ())


class _Nodes:
    """Nodes with idle GPUs that no promise keeps, as arrays."""

    def __init__(self, ledger: Ledger) -> None:
        self.rooms = [room for room in ledger.rooms.values() if room.gpus]
        self.gpus = np.array([len(room.gpus) for room in self.rooms], dtype=np.int64)
        self.cores = np.array([len(room.cores) for room in self.rooms], dtype=np.int64)
        self.memory = np.array([room.memory_mib for room in self.rooms], dtype=np.int64)
        self.types = [room.node.gpu_type or "" for room in self.rooms]

        self._masks: dict[Shape, np.ndarray] = {}  # of types, tenants, domains and bars there are few
        self._without_memory: dict[Shape, tuple[np.ndarray, np.ndarray]] = {}
        self._of_type = {name: np.array([each == name for each in self.types], dtype=bool) for name in set(self.types)}

    def open_to(self, job: Job, barred: Collection[int]) -> np.ndarray:
        key = (job.gpu_types, job.checkpoint_domain, job.tenant, frozenset(barred))
        if key not in self._masks:
            self._masks[key] = np.array(
                [
                    (not job.gpu_types or name in job.gpu_types)
                    and room.node.id not in barred
                    and (job.checkpoint_domain is None or room.node.domain == job.checkpoint_domain)
                    and (not room.node.exclusive_tenant or room.tenants <= {job.tenant})
                    for room, name in zip(self.rooms, self.types, strict=True)
                ],
                dtype=bool,
            )
        return self._masks[key]

    def _sized(self, job: Job, barred: Collection[int]) -> tuple[np.ndarray, np.ndarray]:
        """Memory apart: where the smallest size fits, and how many of its GPUs each node could have."""
        size, least = job.min_gpus, job.least_cores
        key = (size, least, job.gpu_types, job.checkpoint_domain, job.tenant, frozenset(barred))
        if key not in self._without_memory:
            usable = self.open_to(job, barred)
            alone = usable & (self.gpus >= size) & (self.cores >= size * least)
            parts = np.minimum(np.minimum(self.gpus, self.cores // least), size) * usable
            self._without_memory[key] = alone, parts
        return self._without_memory[key]

    def holding(self, job: Job, barred: Collection[int], *, spread_over: Collection[str]) -> np.ndarray:
        """The nodes on which the job's smallest size could start, alone or (on these types) together."""
        size = job.min_gpus
        fitting, parts = self._sized(job, barred)
        alone = fitting & (self.memory >= job.memory_mib)
        if job.memory_mib and spread_over:
            parts = np.minimum(parts, self.memory * size // job.memory_mib)
        for name in spread_over:
            own = self._of_type[name]
            if int(parts[own].sum()) >= size:
                alone = alone | (own & (parts > 0))
        return alone


def beside_fitting(
    waiting: Iterable[tuple[Job, Decision]],
    ledger: Ledger,
    reservations: Sequence[Reservation],
    estimator: Estimator,
    *,
    sigma: float,
    now_s: float,
) -> Beside:
    """What the plan leaves idle beside these jobs of its queue. `ledger`: what it leaves, what is promised withheld."""
    if not any(room.gpus and room.cores for room in ledger.rooms.values()):
        return NOTHING
    nodes = _Nodes(ledger)
    total = int(nodes.gpus.sum())
    keepers = {each.job for each in reservations}
    seen: set[Shape] = set()
    idle = np.zeros(len(nodes.rooms), dtype=bool)
    jobs: list[int] = []
    names = set(nodes.types)
    for job, decision in waiting:
        if (
            job.requirement[0] > total
            or decision.result is not Result.WAITING
            or decision.reason in APART
            or job.is_cpu
        ):
            continue
        if "promised" in decision.figures:
            continue  # it starts elsewhere
        age_s = decision.age_s or 0.0
        bars = tuple(each.job != job.id and now_s + age_s > each.until_s for each in reservations)
        shape = (
            job.min_gpus, job.gpu_types, job.memory_mib, job.checkpoint_domain, job.least_cores, job.tenant,
            job.model_label, job.id if job.id in keepers or (job.model_label is None and estimator.is_known(job)) else 0, bars,
        )  # fmt: skip
        if shape in seen:
            continue
        seen.add(shape)
        if ledger.over_quota(job) is not None:
            continue
        barred = {node for kept, bar in zip(reservations, bars, strict=True) if bar for node in kept.nodes}
        insensitive = estimator.sensitivity(job) <= sigma
        types = {name for name in names if insensitive or job.min_gpus > ledger.largest.get(name, 0)}
        held = nodes.holding(job, barred, spread_over=types)
        if held.any():
            idle |= held
            jobs.append(job.id)
    return Beside(int(nodes.gpus[idle].sum()), tuple(jobs)) if jobs else NOTHING
