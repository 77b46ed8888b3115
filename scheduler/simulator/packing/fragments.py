"""Expected fragmentation of idle GPUs, after Weng et al., "Beware of Fragmentation" (USENIX ATC '23), section 4.

For a job of class m, the idle compute of node n counts as a fragment where the job could not use it: all of it when the
job does not fit on the node (section 4.2, cases 1-3), else that of the GPUs with less than the job asks. The expected
fragmentation is F_n(M) = sum_m p_m F_n(m) with p_m the class's share of the workload (equation 2).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.placement.sharing.pool import Demand, Floats, Ints


@dataclass(slots=True)
class Mix:
    """Classes of demand and their shares of the workload, in arrays, for nodes of the models named."""

    shares: Mapping[Demand, float]
    models: tuple[str, ...]
    share: Floats = field(init=False)
    cpu: Ints = field(init=False)
    gpus: Ints = field(init=False)
    levels: Ints = field(init=False)  # the distinct thousandths asked a GPU
    level: Ints = field(init=False)  # of each class, an index into `levels`
    allowed: Floats = field(init=False)  # model x class: 1 or 0

    def __post_init__(self) -> None:
        asking = [(demand, share) for demand, share in self.shares.items() if demand.gpus]
        self.share = np.array([share for _, share in asking])
        self.cpu = np.array([demand.cpu_milli for demand, _ in asking], dtype=np.int64)
        self.gpus = np.array([demand.gpus for demand, _ in asking], dtype=np.int64)
        self.levels, self.level = np.unique(
            np.array([demand.gpu_milli for demand, _ in asking], dtype=np.int64), return_inverse=True
        )
        self.allowed = np.array(
            [[not demand.models or model in demand.models for demand, _ in asking] for model in self.models],
            dtype=np.float64,
        ).reshape(len(self.models), len(asking))

    def usable(self, gpu: Ints, cpu: Ints, model: Ints) -> Floats:
        """Expected idle thousandths that an arriving job could use: all that is idle less F_n(M).

        `gpu` [..., GPUs], `cpu` and `model` [...]: nodes as they might be. Jobs without GPUs use none (section 4.2).
        """
        enough = gpu[..., None, :] >= self.levels[:, None]
        counts = enough.sum(axis=-1)
        sums = np.where(enough, gpu[..., None, :], 0).sum(axis=-1)
        fit = (counts[..., self.level] >= self.gpus) & (cpu[..., None] >= self.cpu)
        result: Floats = (fit * sums[..., self.level] * self.allowed[model]) @ self.share
        return result
