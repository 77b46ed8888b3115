"""Random: any node that fits, and for a part of a GPU any GPU of it that fits (Weng et al., USENIX ATC '23, section 6.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from research.simulator.packing.pool import tightest_gpu

if TYPE_CHECKING:
    from numpy.random import Generator

    from research.simulator.packing.pool import Floats, Ints, Pool
    from scheduler.simulator.traces.openb import Demand


class RandomFit:
    name = "random"
    ties_by_lot = True

    def score(self, pool: Pool, nodes: Ints, demand: Demand) -> Floats:
        return np.zeros(len(nodes))

    def gpus(self, pool: Pool, node: int, demand: Demand, rng: Generator) -> tuple[int, ...]:
        if not demand.shares:
            return tightest_gpu(pool, node, demand)
        enough = np.flatnonzero(pool.gpu[node] >= demand.gpu_milli)
        return (int(enough[rng.integers(len(enough))]),)
