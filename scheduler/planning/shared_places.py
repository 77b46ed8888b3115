"""The open shared GPUs of a planning, in columns, and the idle cores and memory beside each of them on its node."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scheduler.placement.feasibility import domain_allowed, software_allowed

if TYPE_CHECKING:
    from scheduler.model import Job, PartedGpu
    from scheduler.placement.free_capacity import FreeCapacity
    from scheduler.placement.ledger import Ledger
    from scheduler.sharing.series import Flags


class Places:
    """Shared GPUs on nodes that are up, but for those whose holders have more than the GPU."""

    def __init__(self, ledger: Ledger) -> None:
        self.capacities: list[FreeCapacity] = []
        self.gpus: list[PartedGpu] = []
        self._of_node: dict[int, slice] = {}
        for number in sorted(ledger.free):
            free, first = ledger.free[number], len(self.gpus)
            for gpu in free.node.shared:
                if gpu.open and gpu.compute_left >= 0 and gpu.memory_left_mib >= 0:
                    self.capacities.append(free)
                    self.gpus.append(gpu)
            self._of_node[free.node.id] = slice(first, len(self.gpus))
        self.cores = np.array([len(free.cores) for free in self.capacities], dtype=np.int64)
        self.memory_mib = np.array([free.memory_mib for free in self.capacities], dtype=np.int64)
        self._allowed: dict[tuple[object, ...], tuple[Flags, bool]] = {}
        self._exclusive = any(free.node.exclusive_tenant for free in self.capacities)

    def allowed(self, job: Job) -> Flags:
        """Where nothing but room could keep the job away."""
        kind, _ = self._of_kind(job)
        if not self._exclusive:
            return kind
        admits: Flags = np.array([free.admits(job.tenant) for free in self.capacities], dtype=bool)
        return kind & admits

    def everywhere(self, job: Job) -> bool:
        """Whether nothing but room could keep the job away from any GPU."""
        return not self._exclusive and self._of_kind(job)[1]

    def _of_kind(self, job: Job) -> tuple[Flags, bool]:
        """Return where a job with such wishes may be, and whether that is everywhere."""
        kind = (job.gpu_types, job.bound)
        if kind not in self._allowed:
            found: Flags = np.array([_allowed(job, free) for free in self.capacities], dtype=bool)
            self._allowed[kind] = found, bool(found.all())
        return self._allowed[kind]

    def beside(self, job: Job) -> Flags:
        """Where the node has the cores and the memory that the job needs at least."""
        found: Flags = (self.cores >= job.min_cores) & (self.memory_mib >= job.memory_mib)
        return found

    def taken(self, free: FreeCapacity) -> None:
        here = self._of_node[free.node.id]
        self.cores[here], self.memory_mib[here] = len(free.cores), free.memory_mib


def _allowed(job: Job, free: FreeCapacity) -> bool:
    return job.may_use(free.node.gpu_type) and software_allowed(job, free.node) and domain_allowed(job, free.node)
