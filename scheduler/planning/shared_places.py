"""The open shared GPUs of a planning, in columns, and the idle cores and memory beside each of them on its node."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scheduler.placement.feasibility import domain_allowed, software_allowed

if TYPE_CHECKING:
    from scheduler.model import Job, PartedGpu
    from scheduler.placement.ledger import Ledger
    from scheduler.placement.rooms import Room
    from scheduler.sharing.series import Flags


class Places:
    """Shared GPUs on nodes that are up, but for those whose holders have more than the GPU."""

    def __init__(self, ledger: Ledger) -> None:
        self.rooms: list[Room] = []
        self.gpus: list[PartedGpu] = []
        self._of_node: dict[int, slice] = {}
        for number in sorted(ledger.rooms):
            room, first = ledger.rooms[number], len(self.gpus)
            for gpu in room.node.shared:
                if gpu.open and gpu.compute_left >= 0 and gpu.memory_left_mib >= 0:
                    self.rooms.append(room)
                    self.gpus.append(gpu)
            self._of_node[room.node.id] = slice(first, len(self.gpus))
        self.cores = np.array([len(room.cores) for room in self.rooms], dtype=np.int64)
        self.memory_mib = np.array([room.memory_mib for room in self.rooms], dtype=np.int64)
        self._allowed: dict[tuple[object, ...], tuple[Flags, bool]] = {}
        self._exclusive = any(room.node.exclusive_tenant for room in self.rooms)

    def allowed(self, job: Job) -> Flags:
        """Where nothing but room could keep the job away."""
        kind, _ = self._of_kind(job)
        if not self._exclusive:
            return kind
        admits: Flags = np.array([room.admits(job.tenant) for room in self.rooms], dtype=bool)
        return kind & admits

    def everywhere(self, job: Job) -> bool:
        """Whether nothing but room could keep the job away from any GPU."""
        return not self._exclusive and self._of_kind(job)[1]

    def _of_kind(self, job: Job) -> tuple[Flags, bool]:
        """Return where a job with such wishes may be, and whether that is everywhere."""
        kind = (job.gpu_types, job.bound)
        if kind not in self._allowed:
            found: Flags = np.array([_allowed(job, room) for room in self.rooms], dtype=bool)
            self._allowed[kind] = found, bool(found.all())
        return self._allowed[kind]

    def beside(self, job: Job) -> Flags:
        """Where the node has the cores and the memory that the job needs at least."""
        found: Flags = (self.cores >= job.min_cores) & (self.memory_mib >= job.memory_mib)
        return found

    def taken(self, room: Room) -> None:
        here = self._of_node[room.node.id]
        self.cores[here], self.memory_mib[here] = len(room.cores), room.memory_mib


def _allowed(job: Job, room: Room) -> bool:
    return job.may_use(room.node.gpu_type) and software_allowed(job, room.node) and domain_allowed(job, room.node)
