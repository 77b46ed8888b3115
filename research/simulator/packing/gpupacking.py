"""GPU packing: rather a GPU in use than an idle one, rather a node in use than an idle one (MLaaS in the Wild, NSDI '22).

As the published study of Weng et al. (USENIX ATC '23, section 6.1) scores it, in integers, equal ones in node order:
1. only GPUs in use: 100 less a tenth of their idle percentages, at least 50;
2. idle GPUs of a node in use: 50 less their number, at least 33;
3. an idle node: 33 less its number of GPUs, at least that number.
Jobs without GPUs go anywhere. The GPUs are those with the least idle compute that is enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from research.simulator.packing.pool import tightest_gpu
from scheduler.simulator.traces.openb import MILLI

if TYPE_CHECKING:
    from numpy.random import Generator

    from research.simulator.packing.pool import Floats, Ints, Pool
    from scheduler.simulator.traces.openb import Demand


class GpuPacking:
    name = "packing"
    ties_by_lot = False

    def score(self, pool: Pool, nodes: Ints, demand: Demand) -> Floats:
        if demand.gpus == 0:
            return np.zeros(len(nodes))
        idle, count = pool.gpu[nodes], pool.gpus[nodes]
        free = (idle == MILLI).sum(axis=1)
        used_node = np.where(demand.shares, self._shared(idle, demand), np.maximum(50.0 - demand.gpus, 33.0))
        return np.where(free == count, np.maximum(33 - count, count), used_node).astype(np.float64)

    def _shared(self, idle: Ints, demand: Demand) -> Floats:
        """A part of a GPU on a node in use: the tightest GPU is in use unless only whole idle ones are left."""
        tightest = np.where(idle >= demand.gpu_milli, idle, MILLI).min(axis=1)
        return np.where(tightest == MILLI, 49.0, np.maximum(100 - (tightest * 100 // MILLI) // 10, 50))

    def gpus(self, pool: Pool, node: int, demand: Demand, rng: Generator) -> tuple[int, ...]:
        return tightest_gpu(pool, node, demand)
