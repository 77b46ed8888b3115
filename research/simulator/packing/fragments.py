"""Expected fragmentation of idle GPUs, after Weng et al., "Beware of Fragmentation" (USENIX ATC '23), section 4.

For a job of class m, the idle compute of node n counts as a fragment where the job could not use it: all of it when the
job does not fit on the node (section 4.2, cases 1-3), else that of the GPUs with less than the job asks. The expected
fragmentation is F_n(M) = sum_m p_m F_n(m) with p_m the class's share of the workload (equation 2).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from research.simulator.packing.asking import Asking

if TYPE_CHECKING:
    from collections.abc import Mapping

    from research.simulator.packing.pool import Floats, Ints
    from scheduler.simulator.traces.openb import Demand


@dataclass(slots=True)
class Mix:
    """`shares`: classes of demand and their parts of the workload; `models`: of the nodes, in the pool's order."""

    shares: Mapping[Demand, float]
    models: tuple[str, ...]
    asking: Asking = field(init=False)

    def __post_init__(self) -> None:
        self.asking = Asking.of(self.shares, self.models)

    def usable(self, gpu: Ints, cpu: Ints, model: Ints) -> Floats:
        """Expected idle thousandths that an arriving job could use: all that is idle less F_n(M).

        `gpu` [..., GPUs], `cpu` and `model` [...]: nodes as they might be. Jobs without GPUs use none (section 4.2).
        """
        asking = self.asking
        enough = gpu[..., None, :] >= asking.levels[:, None]
        counts = enough.sum(axis=-1)
        sums = np.where(enough, gpu[..., None, :], 0).sum(axis=-1)
        fit = (counts[..., asking.level] >= asking.gpus) & (cpu[..., None] >= asking.cpu_milli)
        result: Floats = (fit * sums[..., asking.level] * asking.allowed[model]) @ asking.share
        return result
