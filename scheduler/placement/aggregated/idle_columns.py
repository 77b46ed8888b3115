"""Idle nodes as arrays, and the seating of candidates on them one after another: for greedy plans and for handing out.

Among the nodes that hold a piece the one is taken where the fewest GPUs stay idle, then cores, then the lowest id; with
a `loss`, before all that, the one that loses least by it. Before everything come the nodes on which the job is fastest by cells
of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scheduler.estimator.measured import signature
from scheduler.model import Configuration, Job, Share
from scheduler.placement.aggregated.own_speeds import USUAL, Asked
from scheduler.placement.core_counts import MOST_CORES
from scheduler.placement.free_capacity import SPEED_STEP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from scheduler.placement.aggregated.candidates import Candidates, ClassCandidate
    from scheduler.placement.aggregated.classes import Classes, Pool
    from scheduler.placement.ledger import Ledger

NOBODY = -1
FULL_PART = 16
"""When this part of the nodes became full they are left out of the search."""


class IdleColumns:
    """The rest of each node of the classes. Nodes ascend by id; `owner` is the tenant of an exclusive node."""

    def __init__(self, classes: Classes, ledger: Ledger, candidates: Candidates) -> None:
        self._pools = [key.pools for key in candidates.rows]
        numbers: dict[tuple[Pool, ...], int] = {}
        self._supply = [numbers.setdefault(pools, len(numbers)) for pools in self._pools]  # of each row: hashed once
        ids = sorted(node for each in classes.all for node in each.nodes)
        at = {node: k for k, node in enumerate(ids)}
        capacities = [ledger.free[node] for node in ids]
        self.nodes = np.array(ids, dtype=int)
        self.gpus = np.array([len(free.gpus) for free in capacities], dtype=int)
        self.cores = np.array([len(free.cores) for free in capacities], dtype=int)
        self.memory_mib = np.array([free.memory_mib for free in capacities], dtype=int)
        self._limited = ledger.limited
        self._limit = np.array([ledger.cores_for(node, limited=True) for node in ids], dtype=int)
        self.owner = np.array(
            [next(iter(free.tenants), NOBODY) if free.node.exclusive_tenant else NOBODY for free in capacities]
        )
        self._exclusive = np.array([free.node.exclusive_tenant for free in capacities], dtype=bool)
        self._members = {
            pool: np.array([at[node] for node in nodes], dtype=int) for pool, nodes in classes.nodes_of.items()
        }
        self._quota = {t: [a.gpus, a.cores] for t, a in ledger.allowances.items()}
        self._present = {
            group.job.id: group.running.present for group in candidates.groups if group.running is not None
        }
        self._places = [free.node.place for free in capacities]
        self._levels = max(map(len, self._places), default=0)
        self._usual, self._cells = classes.usual, classes.own_speeds.cells
        self._ratios: dict[Asked, np.ndarray] = {}
        self._failed: set[tuple[object, ...]] = set()
        self._at: dict[int, np.ndarray] = {}  # their nodes, but those seen to be full
        self._full = 0  # nodes that became full
        self._full_then: dict[int, int] = {}
        self.loss: Callable[[IdleColumns, np.ndarray, int, int], np.ndarray] | None = None  # see `greedy_by_prices`

    def pools_of(self, candidate: ClassCandidate) -> tuple[Pool, ...]:
        return self._pools[candidate.row]

    def is_pinned(self, candidate: ClassCandidate) -> bool:
        """Whether it is what a running job holds."""
        return self.pools_of(candidate)[0].pin is not None

    def is_apart(self, candidate: ClassCandidate) -> bool:
        """Whether only nodes will do on which some jobs' own speeds are another than on most."""
        return all(pool.own != self._usual.get(pool.home, pool.own) for pool in self.pools_of(candidate))

    def seat(self, job: Job, candidate: ClassCandidate) -> Configuration | None:
        """Take the candidate's resources for the job; None, and nothing taken, when they are not there."""
        failed = (candidate.row, candidate.gpus, candidate.cores, job.memory_mib, job.tenant)
        if failed in self._failed or not self.quota_admits(job, candidate):
            return None
        if self.is_pinned(candidate):
            return self._stay(job)
        at = self._nodes_of(candidate, job)
        parts = self._spread(at, job, candidate) if candidate.spread else self._single(at, job, candidate)
        if not parts:
            self._failed.add(failed)  # free capacity only shrinks
            return None
        return self.take(job, candidate, parts)

    def quota_admits(self, job: Job, candidate: ClassCandidate) -> bool:
        left = self._quota.get(job.tenant, (None, None))
        return all(
            most is None or need <= most for need, most in zip((candidate.gpus, candidate.cores), left, strict=True)
        )

    def take(self, job: Job, candidate: ClassCandidate, parts: Sequence[tuple[int, int]]) -> Configuration:
        """Take (position, GPUs) parts of the candidate, cores and memory in proportion."""
        shares = []
        for at, gpus in sorted(parts):
            cores, memory = candidate.cores * gpus // candidate.gpus, -(-job.memory_mib * gpus // candidate.gpus)
            shares.append(Share(int(self.nodes[at]), gpus, cores, memory))
        return self._taken(job, Configuration(job.id, tuple(shares), candidate.throughput, candidate.source))

    def _stay(self, job: Job) -> Configuration | None:
        """Take what the running job holds, on all its nodes; None, and nothing taken, where something of it is gone."""
        present = self._present[job.id]
        here = ((self.position(each.node), each) for each in present.shares)
        if not all(self.holds(at, job, each.gpus, each.cores, each.memory_mib) for at, each in here):
            return None
        return self._taken(job, present)

    def _taken(self, job: Job, made: Configuration) -> Configuration:
        for share in made.shares:
            at = self.position(share.node)
            self.gpus[at] -= share.gpus
            self._full += not self.gpus[at]
            self.cores[at] -= share.cores
            if job.id in self._limited:
                self._limit[at] -= share.cores
            self.memory_mib[at] -= share.memory_mib
            if self._exclusive[at]:
                self.owner[at] = job.tenant
        if job.tenant in self._quota:
            self._quota[job.tenant] = [
                None if most is None else most - need
                for need, most in zip((made.gpus, made.cores), self._quota[job.tenant], strict=True)
            ]
        return made

    def holds(self, at: int, job: Job, gpus: int, cores: int, memory_mib: int) -> bool:
        enough = self.gpus[at] >= gpus and self.cores_for(at, job) >= cores and self.memory_mib[at] >= memory_mib
        return bool(enough and (not self._exclusive[at] or self.owner[at] in {NOBODY, job.tenant}))

    def cores_for(self, at: int | np.ndarray, job: Job) -> np.ndarray:
        """Idle cores that the job may take there."""
        cores = self.cores[at]
        found: np.ndarray = np.minimum(cores, self._limit[at]) if job.id in self._limited else cores
        return found

    def position(self, node: int) -> int:
        return int(np.searchsorted(self.nodes, node))

    def _nodes_of(self, candidate: ClassCandidate, job: Job) -> np.ndarray:
        supply = self._supply[candidate.row]
        if supply not in self._at:
            members = [self._members[pool] for pool in self.pools_of(candidate)]
            self._at[supply] = np.unique(np.concatenate(members))
        at = self._at[supply]
        if self._full - self._full_then.get(supply, -len(at)) > len(at) // FULL_PART:
            # A search among 20 000 nodes, most of them full, takes nearly all of a planning.
            at = self._at[supply] = at[self.gpus[at] > 0]
            self._full_then[supply] = self._full
        if not self._exclusive.any():
            return at
        open_to = ~self._exclusive[at] | (self.owner[at] == NOBODY) | (self.owner[at] == job.tenant)
        found: np.ndarray = at[open_to]
        return found

    def _single(self, at: np.ndarray, job: Job, candidate: ClassCandidate) -> list[tuple[int, int]]:
        fits = (self.gpus[at] >= candidate.gpus) & (self.cores_for(at, job) >= candidate.cores)
        at = at[fits & (self.memory_mib[at] >= job.memory_mib)]
        if not len(at):
            return []
        if self._cells:
            at = self._fastest(at, job, candidate.gpus)
        if self.loss is not None:
            loss = self.loss(self, at, candidate.gpus, candidate.cores)
            at = at[loss == loss.min()]
        best = (self.gpus[at] * MOST_CORES + self.cores[at]).argmin()  # of equals the first, for they ascend
        return [(int(at[best]), candidate.gpus)]

    def _fastest(self, at: np.ndarray, job: Job, gpus: int) -> np.ndarray:
        """The ones of these nodes where its own cells make the job fastest, or within a step of that."""
        cells = self._cells.get(asked := Asked(signature(job), gpus, 1))
        if cells is None:
            return at
        if asked not in self._ratios:
            ratios = self._ratios[asked] = np.full(len(self.nodes), USUAL)
            own, values = np.fromiter(cells, int), np.fromiter(cells.values(), float)
            place = np.searchsorted(self.nodes, own).clip(max=len(self.nodes) - 1)
            here = self.nodes[place] == own
            ratios[place[here]] = values[here]
        ratios = self._ratios[asked][at]
        found: np.ndarray = at[ratios * (1 + SPEED_STEP) >= ratios.max()]
        return found

    def _spread(self, at: np.ndarray, job: Job, candidate: ClassCandidate) -> list[tuple[int, int]]:
        """Units from the nodes that have most; never all on one node, which would be another candidate."""
        rate = candidate.cores // candidate.gpus
        most = np.minimum(self.gpus[at], self.cores_for(at, job) // rate)
        if job.memory_mib:
            most = np.minimum(most, self.memory_mib[at] * candidate.gpus // job.memory_mib)
        # Each part is of one GPU at least; nodes ascend by id.
        first = np.argsort(-most, kind="stable")[: None if self._levels else candidate.gpus]
        return self.spread_over(list(zip(at[first].tolist(), most[first].tolist(), strict=True)), candidate.gpus)

    def spread_over(self, most: Sequence[tuple[int, int]], gpus: int) -> list[tuple[int, int]]:
        """(position, GPUs) parts that make `gpus`, on the fewest nodes, of these the nearest; [] when they do not reach."""
        fewest = self._largest_first(most, gpus)
        for level in range(self._levels if fewest else 0, 0, -1):
            together: dict[tuple[str, ...], list[tuple[int, int]]] = {}
            for at, units in most:
                if len(self._places[at]) >= level and units:
                    together.setdefault(self._places[at][:level], []).append((at, units))
            near = [self._largest_first(own, gpus) for _, own in sorted(together.items()) if len(own) >= len(fewest)]
            if found := next((parts for parts in near if len(parts) == len(fewest)), None):
                return found
        return fewest

    @staticmethod
    def _largest_first(most: Iterable[tuple[int, int]], gpus: int) -> list[tuple[int, int]]:
        parts: list[tuple[int, int]] = []
        left = gpus
        for at, units in sorted(most, key=lambda each: (-each[1], each[0])):
            part = min(left if parts else min(left, gpus - 1), units)
            if part > 0:
                parts.append((at, part))
                left -= part
            if not left:
                return parts
        return []
