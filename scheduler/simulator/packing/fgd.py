"""Fragmentation gradient descent (Weng et al., USENIX ATC '23, section 5, algorithm 1).

Place where the expected fragmentation grows least: score = 100 * sigmoid((F_before - F_after) / 1000), an integer as in
the published study; equal ones in node order, on a node the first GPU of the best score. The workload's classes (cores, GPUs,
thousandths, allowed models; no memory) are its most frequent ones that make up 95 % of the pods, pods without GPU included.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from scheduler.placement.sharing.fragments import Mix
from scheduler.placement.sharing.pool import tightest_gpu

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.random import Generator

    from scheduler.placement.sharing.pool import Demand, Floats, Ints, Pool

POPULAR = 0.95


def popular(demands: Iterable[Demand]) -> dict[Demand, float]:
    """The most frequent classes until they make up 95 %, with their shares among themselves."""
    counts = Counter(replace(demand, memory_mib=0) for demand in demands)
    total = sum(counts.values())
    chosen: dict[Demand, int] = {}
    for demand, count in sorted(counts.items(), key=_frequent_first):
        if sum(chosen.values()) >= POPULAR * total:
            break
        chosen[demand] = count
    whole = sum(chosen.values())
    return {demand: count / whole for demand, count in chosen.items()}


def _frequent_first(item: tuple[Demand, int]) -> tuple[int, ...]:
    demand, count = item
    return (-count, -demand.cpu_milli, -demand.gpu_milli, -demand.gpus)


@dataclass(slots=True)
class Fgd:
    mix: Mix
    name: str = "fgd"
    ties_by_lot: bool = False

    def score(self, pool: Pool, nodes: Ints, demand: Demand) -> Floats:
        return self._scores(pool, nodes, demand).max(axis=1)

    def _scores(self, pool: Pool, nodes: Ints, demand: Demand) -> Floats:
        """Integer scores: node x GPU for a part of a GPU (UNFIT where it does not fit), else node x 1."""
        before = self.mix.usable(pool.gpu[nodes], pool.cpu[nodes], pool.model[nodes])
        idle = pool.gpu[nodes].sum(axis=1)
        after_gpu = _after(pool.gpu[nodes], demand)
        cpu = np.broadcast_to((pool.cpu[nodes] - demand.cpu_milli)[:, None], after_gpu.shape[:2])
        model = np.broadcast_to(pool.model[nodes][:, None], after_gpu.shape[:2])
        after = self.mix.usable(after_gpu, cpu, model)
        grown = ((idle - demand.milli)[:, None] - after) - (idle - before)[:, None]
        scores = np.trunc(100 / (1 + np.exp(grown / 1000)))
        return np.where(after_gpu.min(axis=2) < 0, -1.0, scores)

    def gpus(self, pool: Pool, node: int, demand: Demand, rng: Generator) -> tuple[int, ...]:
        if not demand.shares:
            return tightest_gpu(pool, node, demand)
        return (int(np.argmax(self._scores(pool, np.array([node]), demand)[0])),)

    def arrived(self, pool: Pool, demand: Demand) -> bool:
        return False


def _after(gpu: Ints, demand: Demand) -> Ints:
    """Idle compute after each choice of GPU: [node, choice, GPU]; negative where it does not fit."""
    if demand.shares:
        return gpu[:, None, :] - demand.gpu_milli * np.eye(gpu.shape[1], dtype=np.int64)[None]
    whole = gpu >= max(demand.gpu_milli, 1)
    taken = whole & (np.cumsum(whole, axis=1) <= demand.gpus)
    return (gpu - taken * demand.gpu_milli)[:, None, :]
