"""The idle nodes as arrays: finds the tightest nodes for a job's smallest size without a loop over nodes for each job."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from scheduler.placement.feasibility import ties_allowed
from scheduler.placement.free_capacity import SPEED_STEP, Offer, speed_class

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scheduler.estimator.estimator import Estimator
    from scheduler.model import Job
    from scheduler.placement.access import Access, Rules
    from scheduler.placement.ledger import Ledger


class IdleNodes:
    """Nodes with idle GPUs. Call `refresh` for a node after something of it was taken from the ledger; nothing comes back."""

    def __init__(self, ledger: Ledger, rules: Rules) -> None:
        self._ledger, self._rules = ledger, rules
        self._capacities = [free for free in ledger.free.values() if free.gpus and free.cores]
        self._at = {free.node.id: k for k, free in enumerate(self._capacities)}
        self._zones = [rules.zone(free.node.id) for free in self._capacities]
        self._home = np.array([zone.array for zone in self._zones], dtype=object)
        kinds: dict[tuple[str, int], int] = {}
        self._kind = np.array(
            [kinds.setdefault((r.node.gpu_type or "", speed_class(r.node)), len(kinds)) for r in self._capacities],
            dtype=np.int64,
        )
        self._types = [free.node.gpu_type or "" for free in self._capacities]
        self._idle = np.zeros(
            (4, len(self._capacities)), dtype=np.int64
        )  # GPUs, cores, cores of the reserved ones, MiB
        self.tells_tenants_apart = any(
            free.node.exclusive_tenant for free in self._capacities
        )  # some take one at a time
        self._open: dict[tuple[object, ...], np.ndarray] = {}
        for free in self._capacities:
            self.refresh(free.node.id)

    @property
    def gpus_left(self) -> int:
        return int(self._idle[0].sum())

    def refresh(self, node: int) -> None:
        k = self._at[node]
        free, ledger = self._capacities[k], self._ledger
        self._idle[:, k] = len(free.gpus), len(free.cores), ledger.cores_for(node, limited=True), free.memory_mib

    def most_by_type(self, estimator: Estimator) -> dict[str, int]:
        """By type, the largest smallest size that may fit: the most GPUs idle on one node, or on all if it may be spread."""
        block: dict[str, int] = {}
        total: dict[str, int] = {}
        for name, gpus in zip(self._types, self._idle[0].tolist(), strict=True):
            block[name], total[name] = max(block.get(name, 0), gpus), total.get(name, 0) + gpus
        spread = estimator.signatures != frozenset()
        return {
            name: total[name] if spread or total[name] > self._ledger.largest.get(name, 0) else gpus
            for name, gpus in block.items()
        }

    def best_fit(
        self, job: Job, access: Access, *, spreads: bool, cells: Mapping[int, float] = MappingProxyType({})
    ) -> list[Offer]:
        """The nodes to generate the job's smallest size on; [] = nowhere.

        On one node: for each type and speed the tightest node with the cores that the job wants, or else with most of them, in
        its own array if it fits there. `cells`: by node, how much faster than its class the job was measured to be there; such
        nodes are of a speed of their own. Spread: every node that can hold a part.
        """
        if not self._capacities:
            return []
        cores = self._idle[2 if access.limited else 1]
        usable = self._usable(job, access)
        size = job.min_gpus
        fit = usable & (self._idle[0] >= size) & (cores >= size * job.least_cores) & (self._idle[3] >= job.memory_mib)
        if fit.any():
            at_home = fit & (self._home == access.home)
            return self._first(np.flatnonzero(at_home if at_home.any() else fit), job, cores, access, cells)
        return self._spread(job, access, usable, cores, spreads=spreads)

    def _first(
        self, found: np.ndarray, job: Job, cores: np.ndarray, access: Access, own: Mapping[int, float]
    ) -> list[Offer]:
        kind = self._kind[found]
        if own:
            steps = [round(own.get(self._capacities[k].node.id, 1.0) / SPEED_STEP) for k in found.tolist()]
            kind = kind + len(self._capacities) * np.array(steps)
        given = np.minimum(cores[found], job.cores * job.min_gpus)
        order = np.lexsort((found, self._idle[0][found], -given, kind))
        kinds = kind[order]
        first = found[order][np.flatnonzero(np.diff(kinds, prepend=-1))]
        return self._offers(np.sort(first), access)

    def _spread(self, job: Job, access: Access, usable: np.ndarray, cores: np.ndarray, *, spreads: bool) -> list[Offer]:
        size, largest = job.min_gpus, self._ledger.largest
        types = {name for name in set(self._types) if spreads or size > largest.get(name, 0)}
        if not types:
            return []
        parts = np.minimum(np.minimum(self._idle[0], cores // job.least_cores), size) * usable
        if job.memory_mib:
            parts = np.minimum(parts, self._idle[3] * size // job.memory_mib)
        found: list[int] = []
        for name in sorted(types):
            own = [k for k, each in enumerate(self._types) if each == name and parts[k]]
            if sum(int(parts[k]) for k in own) >= size:
                found += own
        return self._offers(sorted(found), access)

    def _offers(self, found: Sequence[int] | np.ndarray, access: Access) -> list[Offer]:
        row = 2 if access.limited else 1
        return [
            Offer(free.node, int(self._idle[0, k]), int(self._idle[row, k]), free.memory_mib, free.tenants)
            for k in map(int, found)
            for free in (self._capacities[k],)
        ]

    def _usable(self, job: Job, access: Access) -> np.ndarray:
        """Which nodes are open to the job, by type, zone, domain, software and trust. A job may close a node to other tenants."""
        key = (access, job.gpu_types, job.bound)
        known = self._open.get(key)
        if known is None:
            known = self._open[key] = np.array(
                [
                    access.admits(zone) and job.may_use(free.node.gpu_type) and ties_allowed(job, free.node)
                    for free, zone in zip(self._capacities, self._zones, strict=True)
                ],
                dtype=bool,
            )
        if not self.tells_tenants_apart:
            return known
        admitted = np.array([free.admits(job.tenant) for free in self._capacities], dtype=bool)
        both: np.ndarray = known & admitted
        return both
