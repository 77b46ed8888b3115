"""Best fit: the node with the least left over once the job is there (Weng et al., USENIX ATC '23, section 6.1).

score = 100 * (1 - sum over (cores, GPU) of 1/2 * (idle - asked) / largest node's), cut to an integer as the
published study's scheduler does; equal integers go to the first node. Within the node the tightest GPU.
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

LARGEST_CPU_MILLI, LARGEST_GPU_MILLI = 128_000, 8 * MILLI
"""The study's largest node, by which it scales resources."""


class BestFit:
    name = "bestfit"
    ties_by_lot = False

    def score(self, pool: Pool, nodes: Ints, demand: Demand) -> Floats:
        cpu = (pool.cpu[nodes] - demand.cpu_milli) / LARGEST_CPU_MILLI
        gpu = (pool.gpu[nodes].sum(axis=1) - demand.milli) / LARGEST_GPU_MILLI
        scores: Floats = np.trunc((1.0 - 0.5 * cpu - 0.5 * gpu) * 100)
        return scores

    def gpus(self, pool: Pool, node: int, demand: Demand, rng: Generator) -> tuple[int, ...]:
        return tightest_gpu(pool, node, demand)
