"""Dot product, after Tetris: the node whose idle resources, seen as a vector, go least along with the demand's.

(Weng et al., USENIX ATC '23, section 6.1, in the reading of its published study: cores and GPU in all are scaled by
the largest node, the product is halved and the *smallest* is best.) score = 100 * (1 - product / 2), an integer; equal
ones by lot; within the node the tightest GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from research.simulator.packing.bestfit import LARGEST_CPU_MILLI, LARGEST_GPU_MILLI
from research.simulator.packing.pool import tightest_gpu

if TYPE_CHECKING:
    from numpy.random import Generator

    from research.simulator.packing.pool import Floats, Ints, Pool
    from scheduler.simulator.traces.openb import Demand


class DotProduct:
    name = "dotproduct"
    ties_by_lot = False

    def score(self, pool: Pool, nodes: Ints, demand: Demand) -> Floats:
        cpu = (pool.cpu[nodes] / LARGEST_CPU_MILLI) * (demand.cpu_milli / LARGEST_CPU_MILLI)
        gpu = (pool.gpu[nodes].sum(axis=1) / LARGEST_GPU_MILLI) * (demand.milli / LARGEST_GPU_MILLI)
        scores: Floats = np.trunc((1.0 - (cpu + gpu) / 2) * 100)
        return scores

    def gpus(self, pool: Pool, node: int, demand: Demand, rng: Generator) -> tuple[int, ...]:
        return tightest_gpu(pool, node, demand)
