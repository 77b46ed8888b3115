"""The variants of a configuration beside its size: how many cores, and how fast the node is (sections 5 and 6).

*Cores.* A job wants c cores for each of its g GPUs. On a node with G idle GPUs and C idle cores it may get min(c*g, C), and also
its share floor(C*g/G) if that is smaller; its throughput falls linearly with the missing cores. Ours: the counts of all nodes of
a type form one list for the type, thinned to `MOST_COUNTS` with the largest and the smallest. Every node of the type
offers all of them that its idle cores allow. This bounds the number of configurations, and nodes with the same idle resources are
interchangeable, independent of other nodes. A job that is spread over nodes gets the same whole number of cores per GPU in every
part, 2 or 1, because it waits for its slowest part.

*Speed.* The entity factor of a node in 5 % steps, independent of the job.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from scheduler.estimator.cores import DISTRIBUTED_CORES
from scheduler.placement.free_capacity import SPEED_STEP, speed_class

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.estimator.estimator import Estimator
    from scheduler.estimator.layers import Estimate
    from scheduler.model import Job, Node

MOST_COUNTS = 6
MOST_CORES = 1 << 20
"""No node has more."""
MEASURED_THERE = "entity"
"""The estimator's layer that knows the node itself: its answer is not scaled by the node's factor again."""


def per_gpu(estimator: Estimator, job: Job, node: Node, gpus: int, nodes: int) -> tuple[float, str]:
    """Per-GPU throughput on this node and its source, the node's speed class applied."""
    return speed_of(estimator, job, node, gpus, nodes, speed_class(node) * SPEED_STEP)


def speed_of(estimator: Estimator, job: Job, node: Node, gpus: int, nodes: int, factor: float) -> tuple[float, str]:
    """The same where the factor of the node's speed class is known."""
    estimate: Estimate = estimator.per_gpu(job, node, gpus, nodes)
    source = estimate.source
    return estimate.per_gpu if source == MEASURED_THERE else estimate.per_gpu * factor, source


def share_of_speed(cores: int, per_gpu: int, gpus: int) -> float:
    """The part of full speed that these cores give, by assumption until it is measured."""
    return min(1.0, cores / (per_gpu * gpus))


def spread_rates(job: Job) -> range:
    """Cores a GPU for a job spread over nodes, largest first."""
    return range(max(job.least_cores, min(job.cores, DISTRIBUTED_CORES)), job.least_cores - 1, -1)


class CoreCounts:
    """The core counts that the nodes of each type offer. `idle`: (type, idle GPUs, idle cores) of each node."""

    def __init__(self, idle: Iterable[tuple[str, int, int]]) -> None:
        found: dict[str, set[tuple[int, int]]] = {}
        for gpu_type, gpus, cores in idle:
            if gpus:
                found.setdefault(gpu_type, set()).add((gpus, cores))
        self._idle = {gpu_type: np.array(list(own), dtype=int).T for gpu_type, own in found.items()}
        self._known: dict[tuple[str, int, int, int, float], tuple[int, ...]] = {}

    def of(self, gpu_type: str, size: int, job: Job, most: int | None = None) -> tuple[int, ...]:
        """Core counts for `size` GPUs of the job, those that it wants for each, and at most `most` in all, largest first."""
        key = (gpu_type, size, job.cores, job.least_cores, math.inf if most is None else most)
        if key not in self._known:
            self._known[key] = self._counts(gpu_type, size, min(job.cores * size, key[4]), job.least_cores * size)
        return self._known[key]

    def _counts(self, gpu_type: str, size: int, wanted: float, least: int) -> tuple[int, ...]:
        if gpu_type not in self._idle:
            return ()
        gpus, cores = self._idle[gpu_type]
        given = np.minimum(cores, int(min(wanted, MOST_CORES)))
        enough = (gpus >= size) & (given >= least)
        given = given[enough]
        part = np.minimum(given, np.maximum(least, cores[enough] * size // gpus[enough]))
        found = sorted({*given.tolist(), *part.tolist()}, reverse=True)
        if len(found) <= MOST_COUNTS:
            return tuple(found)
        return tuple(found[round(k * (len(found) - 1) / (MOST_COUNTS - 1))] for k in range(MOST_COUNTS))
