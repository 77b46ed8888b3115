"""The classes of demand of a workload that ask for GPUs, in arrays: what measures of expected use are worked out on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from research.simulator.packing.pool import Floats, Ints
    from scheduler.simulator.traces.openb import Demand


@dataclass(frozen=True, slots=True)
class Asking:
    """One entry a class; `share` is its part of the workload, `level` an index into `levels`."""

    share: Floats
    cpu_milli: Ints
    memory_mib: Ints
    gpus: Ints
    levels: Ints
    """The distinct thousandths asked a GPU."""
    level: Ints
    allowed: Floats
    """GPU model x class: 1 or 0."""

    @classmethod
    def of(cls, shares: Mapping[Demand, float], models: tuple[str, ...]) -> Asking:
        """For nodes of the models named, in their order."""
        asking = [(demand, share) for demand, share in shares.items() if demand.gpus]
        levels, level = np.unique(
            np.array([demand.gpu_milli for demand, _ in asking], dtype=np.int64), return_inverse=True
        )
        allowed = [[not demand.models or model in demand.models for demand, _ in asking] for model in models]
        return cls(
            share=np.array([share for _, share in asking]),
            cpu_milli=np.array([demand.cpu_milli for demand, _ in asking], dtype=np.int64),
            memory_mib=np.array([demand.memory_mib for demand, _ in asking], dtype=np.int64),
            gpus=np.array([demand.gpus for demand, _ in asking], dtype=np.int64),
            levels=levels,
            level=level,
            allowed=np.array(allowed, dtype=np.float64).reshape(len(models), len(asking)),
        )
