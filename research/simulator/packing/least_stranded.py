"""Berth's place for a job on shared GPUs: where it strands least of the compute that is idle (algorithms.md section 11).

Two kinds of stranding, both in thousandths of a GPU, for the workload expected (the cluster's own history):
- *gaps*: what is left of the GPU suits no combination of parts so well any more (`gaps`, the price of a gap);
- *the node*: its idle GPUs can no longer be filled, for cores, memory or GPUs are short there (`fill`).
A wasted gap stays until the jobs beside it end, while a node's balance is mended by the next jobs: gaps come first, the
node decides among places whose gaps are as good. Of places as good as each other the fuller node has it, then the first.

*Deviation* from Kube-Knots' consolidation ("fill active GPUs first"), which follows here from the prices: opening a GPU
costs least only where none in use suits.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from research.simulator.packing.choices import left_idle, worth_trying
from research.simulator.packing.fill import Fill
from research.simulator.packing.pool import tightest_gpu
from scheduler.planning.gaps import gap_worth
from scheduler.simulator.traces.openb import MILLI

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.random import Generator

    from research.simulator.packing.pool import Floats, Ints, Pool
    from scheduler.simulator.traces.openb import Demand

GAPS_FIRST = 1000.0
"""So large that no node of eight GPUs outweighs a gap that is worth a hundredth of a GPU less."""
FULLER = 0.01
"""Thousandths of stranding that a thousandth less of idle compute on the node outweighs: it settles near-ties only."""
POPULAR = 0.95
"""Of the workload's GPU jobs: rarer classes than make up these are left out of what nodes are filled with."""


def workload_mix(demands: Iterable[Demand], popular: float = POPULAR) -> dict[Demand, float]:
    """The most frequent classes, until they make up this share of the demands, and their frequencies."""
    counts = Counter(demands)
    total, kept = sum(counts.values()), 0
    mix: dict[Demand, float] = {}
    for demand, count in sorted(counts.items(), key=_frequent_first):
        if kept >= popular * total:
            break
        mix[demand], kept = count / total, kept + count
    return mix


def _frequent_first(item: tuple[Demand, int]) -> tuple[object, ...]:
    demand, count = item
    return (-count, demand.gpus, demand.gpu_milli, demand.cpu_milli, demand.memory_mib, sorted(demand.models))


@dataclass(slots=True)
class LeastStranded:
    """The rule for one expected workload, as `expecting` makes it."""

    fill: Fill
    worth: Floats  # of 0..1000 idle thousandths of a GPU, in GPUs
    name: str = field(default="berth")
    ties_by_lot: bool = field(default=False)

    @classmethod
    def expecting(cls, demands: Iterable[Demand], models: tuple[str, ...]) -> LeastStranded:
        """For a workload like these demands."""
        demands = list(demands)
        parts = Counter(demand.gpu_milli for demand in demands if demand.shares)
        return cls(Fill(workload_mix(demand for demand in demands if demand.gpus), models), gap_worth(parts))

    def score(self, pool: Pool, nodes: Ints, demand: Demand) -> Floats:
        result: Floats = self._scores(pool, nodes, demand).max(axis=1)
        return result

    def gpus(self, pool: Pool, node: int, demand: Demand, rng: Generator) -> tuple[int, ...]:
        if not demand.shares:
            return tightest_gpu(pool, node, demand)
        return (int(np.argmax(self._scores(pool, np.array([node]), demand)[0])),)

    def _scores(self, pool: Pool, nodes: Ints, demand: Demand) -> Floats:
        """Less is stranded where it is larger: [node, choice] of `left_idle`; -inf where it is not worth trying."""
        tried = worth_trying(pool.gpu[nodes], demand)
        scores: Floats = np.full(tried.shape, -np.inf)
        row, choice = np.nonzero(tried)
        at, left = nodes[row], left_idle(pool.gpu[nodes], demand)[tried]
        cpu, memory = pool.cpu[at] - demand.cpu_milli, pool.memory[at] - demand.memory_mib
        before = self.fill.fillable(pool.gpu[nodes], pool.cpu[nodes], pool.memory[nodes], pool.model[nodes])
        found = self.fill.fillable(left, cpu, memory, pool.model[at]) - before[row]
        found = found - FULLER * pool.gpu[at].sum(axis=1)
        if demand.shares:
            gap = pool.gpu[at, choice]
            found = found - GAPS_FIRST * MILLI * (self.worth[gap] - self.worth[gap - demand.gpu_milli])
        scores[tried] = np.round(found, 6)  # the last digits are the machine's own, and must not break ties
        return scores
