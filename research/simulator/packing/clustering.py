"""GPU clustering: jobs of one kind together (Weng et al., USENIX ATC '23, section 6.1, after Gandiva).

A job's kind is "part of a GPU" or its number of whole GPUs. Nodes that hold only this kind come first, then nodes that
hold it among others, then idle nodes, then nodes that hold other kinds only; among equals the fuller. In the published
study's integers: 75, 50, 25 or 0, plus 25 * (8 GPUs - idle) / 8 GPUs; equal ones in node order. Jobs without GPUs go anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from research.simulator.packing.bestfit import LARGEST_GPU_MILLI
from research.simulator.packing.pool import tightest_gpu

if TYPE_CHECKING:
    from numpy.random import Generator

    from research.simulator.packing.pool import Floats, Ints, Pool
    from scheduler.simulator.traces.openb import Demand


@dataclass(slots=True)
class Clustering:
    """`kinds`: node -> the kinds of job that it holds."""

    name: str = field(default="clustering")
    ties_by_lot: bool = field(default=False)
    kinds: dict[int, set[int]] = field(default_factory=dict)

    def score(self, pool: Pool, nodes: Ints, demand: Demand) -> Floats:
        if demand.gpus == 0:
            return np.zeros(len(nodes))
        full = 25 * (LARGEST_GPU_MILLI - pool.gpu[nodes].sum(axis=1)) // LARGEST_GPU_MILLI
        scores: Floats = full + np.array([self._company(int(node), _kind(demand)) for node in nodes])
        return scores

    def _company(self, node: int, kind: int) -> float:
        held = self.kinds.get(node, set())
        if kind in held:
            return 75.0 if len(held) == 1 else 50.0
        return 0.0 if held else 25.0

    def gpus(self, pool: Pool, node: int, demand: Demand, rng: Generator) -> tuple[int, ...]:
        if demand.gpus:
            self.kinds.setdefault(node, set()).add(_kind(demand))
        return tightest_gpu(pool, node, demand)


def _kind(demand: Demand) -> int:
    return 0 if demand.shares else demand.gpus
