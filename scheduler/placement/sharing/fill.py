"""Expected fillable compute: how much of a node's idle GPU the coming workload could fill, by all of the node's resources.

Fragmentation as Weng et al. measure it (USENIX ATC '23, section 4) asks whether *one* more job fits: a node with eight
idle GPUs and cores for a single job counts as wholly usable. *Ours*: were the node filled with jobs of one class alone,
as many would go there as its GPUs, its cores and its memory allow; the idle compute of that share of the GPUs that they
could use counts as fillable, and the workload's classes are averaged by their frequencies. So cores are not spent where
GPUs will need them, and memory neither.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from scheduler.placement.sharing.pool import MILLI

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.placement.sharing.pool import Demand, Floats, Ints


@dataclass(slots=True)
class Fill:
    """Classes of demand and their shares of the workload, in arrays, for nodes of the models named."""

    shares: Mapping[Demand, float]
    models: tuple[str, ...]
    share: Floats = field(init=False)
    cpu: Ints = field(init=False)
    memory: Ints = field(init=False)
    gpus: Ints = field(init=False)
    levels: Ints = field(init=False)  # the distinct thousandths asked a GPU
    level: Ints = field(init=False)  # of each class, an index into `levels`
    allowed: Floats = field(init=False)  # model x class: 1 or 0

    def __post_init__(self) -> None:
        asking = [(demand, share) for demand, share in self.shares.items() if demand.gpus]
        self.share = np.array([share for _, share in asking])
        self.cpu = np.array([max(1, demand.cpu_milli) for demand, _ in asking], dtype=np.int64)
        self.memory = np.array([max(1, demand.memory_mib) for demand, _ in asking], dtype=np.int64)
        self.gpus = np.array([demand.gpus for demand, _ in asking], dtype=np.int64)
        sizes = np.array([demand.gpu_milli for demand, _ in asking], dtype=np.int64)
        self.levels, self.level = np.unique(sizes, return_inverse=True)
        allowed = [[not demand.models or model in demand.models for demand, _ in asking] for model in self.models]
        self.allowed = np.array(allowed, dtype=np.float64).reshape(len(self.models), len(asking))

    def fillable(self, gpu: Ints, cpu: Ints, memory: Ints, model: Ints) -> Floats:
        """Expected thousandths of GPU. `gpu` [..., GPUs], the others [...]: nodes as they might be."""
        slots, idle = self._by_gpus(gpu)
        jobs = np.minimum(slots, cpu[..., None] // self.cpu)
        np.minimum(jobs, memory[..., None] // self.memory, out=jobs)
        result: Floats = (jobs * idle / np.maximum(slots, 1) * self.allowed[model]) @ self.share
        return result

    def _by_gpus(self, gpu: Ints) -> tuple[Ints, Ints]:
        """[..., class]: how many such jobs the GPUs alone have room for, and the idle compute of the GPUs they could use."""
        each = gpu[..., None, :] // self.levels[:, None]
        idle = np.where(each > 0, gpu[..., None, :], 0).sum(axis=-1)
        slots = each.sum(axis=-1)[..., self.level] // self.gpus
        # Several GPUs are taken whole, so only whole multiples of them can be used.
        return slots, np.where(self.gpus > 1, slots * self.gpus * MILLI, idle[..., self.level])
