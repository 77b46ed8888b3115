"""The nodes of a pool as arrays: tells where a piece fits, or nearly fits, without a loop over nodes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scheduler.placement.feasibility import ties_allowed
from scheduler.placement.free_capacity import FreeCapacity, Shortfall

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scheduler.model import Job, Piece
    from scheduler.placement.ledger import Ledger

UNBOUND = (None, "", -math.inf)
"""`Job.bound` of a job that may go to any node."""
RESOURCES = ("trust", "gpus", "cores", "memory_mib")


@dataclass(slots=True)
class Kind:
    """The nodes in id order and their idle resources."""

    capacities: Sequence[FreeCapacity]
    idle: np.ndarray  # rows gpus, cores, memory_mib; a column per node
    all_open: bool  # no node takes one tenant at a time

    def fitting(self, job: Job, gpus: int, cores: int) -> list[int]:
        """The nodes that hold a piece with all the job's memory."""
        open_to, short = self._short(job, gpus, cores, self.idle)
        return [self.capacities[k].node.id for k in np.flatnonzero(open_to & (short >= 0).all(axis=0)).tolist()]

    def nearest(self, job: Job, gpus: int, cores: int, own: Iterable[Piece]) -> tuple[int, Shortfall | None] | None:
        """The node where the piece fits, or where the latest resource fails by the least, and that resource.

        `own`: pieces that are given back first. None when the job may go to none of the nodes.
        """
        open_to, short = self._short(job, gpus, cores, self._with(own))
        reachable = self._readable(job)
        if not reachable.any():
            return None
        # How many of gpus, cores and memory hold before one fails; -1 where another tenant's job is in the way.
        level = np.where(open_to, np.logical_and.accumulate(short >= 0, axis=0).sum(axis=0), -1)
        level = np.where(reachable, level, -2)
        by = np.where((level >= 0) & (level < 3), short[np.clip(level, 0, 2), np.arange(len(level))], 0)
        k = int(np.lexsort((np.arange(len(level)), -by, -level))[0])
        return self.capacities[k].node.id, self._failed(k, int(level[k]), (gpus, cores, job.memory_mib), int(by[k]))

    def _failed(self, k: int, level: int, needed: Sequence[int], by: int) -> Shortfall | None:
        node = self.capacities[k].node.id
        if level == len(needed):
            return None
        if level < 0:
            return Shortfall("trust", node, 1, 0)
        return Shortfall(RESOURCES[level + 1], node, needed[level], needed[level] + by)

    def units(self, job: Job, rate: int, own: Iterable[Piece]) -> tuple[int, int]:
        """GPUs left in all on the nodes open to the job, and those of them with `rate` cores each."""
        idle = self._with(own)[:, self._open_to(job)]
        return int(idle[0].sum()), int(np.minimum(idle[0], idle[1] // rate).sum())

    def _with(self, own: Iterable[Piece]) -> np.ndarray:
        at = {free.node.id: k for k, free in enumerate(self.capacities)} if own else {}
        idle = self.idle.copy()
        for piece in own:
            if piece.node in at:
                idle[:, at[piece.node]] += (len(piece.gpus), len(piece.cores), piece.memory_mib)
        return idle

    def _short(self, job: Job, gpus: int, cores: int, idle: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self._open_to(job), idle - np.array([[gpus], [cores], [job.memory_mib]])

    def _readable(self, job: Job) -> np.ndarray:
        if job.bound == UNBOUND:
            return np.ones(len(self.capacities), dtype=bool)
        return np.array([ties_allowed(job, free.node) for free in self.capacities], dtype=bool)

    def _open_to(self, job: Job) -> np.ndarray:
        readable = self._readable(job)
        if self.all_open:
            return readable
        admitted = np.array([free.admits(job.tenant) for free in self.capacities], dtype=bool)
        both: np.ndarray = np.logical_and(readable, admitted)
        return both


def kind_of(ledger: Ledger, nodes: Iterable[int], *, limited: bool) -> Kind:
    """These nodes of a ledger. `limited`: with the reserved cores only (`Ledger.limit`)."""
    capacities = [ledger.free[number] for number in nodes]
    idle = [[len(r.gpus), ledger.cores_for(r.node.id, limited=limited), r.memory_mib] for r in capacities]
    all_open = not any(free.node.exclusive_tenant for free in capacities)
    return Kind(capacities, np.array(idle, dtype=np.int64).reshape(-1, 3).T, all_open)
