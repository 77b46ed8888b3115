"""Fragmentation gradient descent (Weng et al., USENIX ATC '23, section 5, algorithm 1).

Place where the expected fragmentation grows least: score = 100 * sigmoid((F_before - F_after) / 1000), an integer as in
the published study; equal ones in node order, on a node the first GPU of the best score. The workload's classes (cores, GPUs,
thousandths, allowed models; no memory) are its most frequent ones that make up 95 % of the pods, pods without GPU included.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from research.simulator.packing.choices import left_idle, worth_trying
from research.simulator.packing.fragments import Mix
from research.simulator.packing.least_stranded import workload_mix
from research.simulator.packing.pool import tightest_gpu
from scheduler.copies import replace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.random import Generator

    from research.simulator.packing.pool import Floats, Ints, Pool
    from scheduler.simulator.traces.openb import Demand

POPULAR = 0.95
"""Of the pods are of the classes that count: the study's setting."""


@dataclass(slots=True)
class Fgd:
    mix: Mix
    name: str = field(default="fgd")
    ties_by_lot: bool = field(default=False)

    @classmethod
    def expecting(cls, demands: Iterable[Demand], models: tuple[str, ...]) -> Fgd:
        """For a workload like these demands."""
        classes = workload_mix((replace(demand, memory_mib=0) for demand in demands), POPULAR)
        whole = sum(classes.values())
        return cls(Mix({demand: share / whole for demand, share in classes.items()}, models))

    def score(self, pool: Pool, nodes: Ints, demand: Demand) -> Floats:
        best: Floats = self._scores(pool, nodes, demand).max(axis=1)
        return best

    def _scores(self, pool: Pool, nodes: Ints, demand: Demand) -> Floats:
        """Integer scores: [node, choice] of `left_idle`; -1 where it is not worth trying."""
        tried = worth_trying(pool.gpu[nodes], demand)
        row, _ = np.nonzero(tried)
        at, left = nodes[row], left_idle(pool.gpu[nodes], demand)[tried]
        before = self.mix.usable(pool.gpu[nodes], pool.cpu[nodes], pool.model[nodes])
        after = self.mix.usable(left, pool.cpu[at] - demand.cpu_milli, pool.model[at])
        # Rounded, for the product of matrices may be off in the last digit, and nothing lost must score 50, not 49.
        grown = np.round(before[row] - after - demand.milli, 6)
        scores: Floats = np.full(tried.shape, -1.0)
        scores[tried] = np.trunc(100 / (1 + np.exp(grown / 1000)))
        return scores

    def gpus(self, pool: Pool, node: int, demand: Demand, rng: Generator) -> tuple[int, ...]:
        if not demand.shares:
            return tightest_gpu(pool, node, demand)
        return (int(np.argmax(self._scores(pool, np.array([node]), demand)[0])),)
