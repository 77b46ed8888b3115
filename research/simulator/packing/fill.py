"""Expected fillable compute: how much of a node's idle GPU the coming workload could fill, by all of the node's resources.

Fragmentation as Weng et al. measure it (USENIX ATC '23, section 4) asks whether *one* more job fits: a node with eight
idle GPUs and cores for a single job counts as wholly usable. *Ours*: were the node filled with jobs of one class alone,
as many would go there as its GPUs, its cores and its memory allow; the idle compute of that share of the GPUs that they
could use counts as fillable, and the workload's classes are averaged by their frequencies. So cores are not spent where
GPUs will need them, and memory neither. No node is filled by one class alone, though: where cores are short, light jobs
fill what heavy ones leave. So a class that could fill `ENOUGH` of the idle compute counts as filling nearly all of it, and
`ALONE` of the measure stays with what it fills alone, so that cores are not spent for nothing. (`ENOUGH` 1 gives nodes
with few cores up too early; near 0 it is the question whether one more fits. docs/evidence/openb.md compares.)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from research.simulator.packing.asking import Asking
from scheduler.simulator.traces.openb import MILLI

if TYPE_CHECKING:
    from collections.abc import Mapping

    from research.simulator.packing.pool import Floats, Ints
    from scheduler.simulator.traces.openb import Demand


ENOUGH = 0.4
"""Part of a node's idle compute that a class alone could fill and that counts as nearly all of it."""
ALONE = 0.02
"""Part of the measure that the class fills by itself."""


@dataclass(slots=True)
class Fill:
    """`shares`: classes of demand and their parts of the workload; `models`: of the nodes, in the pool's order."""

    shares: Mapping[Demand, float]
    models: tuple[str, ...]
    asking: Asking = field(init=False)

    def __post_init__(self) -> None:
        self.asking = Asking.of(self.shares, self.models)

    def fillable(self, gpu: Ints, cpu: Ints, memory: Ints, model: Ints) -> Floats:
        """Expected thousandths of GPU. `gpu` [..., GPUs], the others [...]: nodes as they might be."""
        asking = self.asking
        slots, idle = self._by_gpus(gpu)
        jobs = np.minimum(slots, cpu[..., None] // np.maximum(asking.cpu_milli, 1))
        np.minimum(jobs, memory[..., None] // np.maximum(asking.memory_mib, 1), out=jobs)
        alone = jobs / np.maximum(slots, 1)
        part = (1 - ALONE) * np.minimum(1.0, alone / ENOUGH) + ALONE * alone
        result: Floats = (part * idle * asking.allowed[model]) @ asking.share
        return result

    def _by_gpus(self, gpu: Ints) -> tuple[Ints, Ints]:
        """[..., class]: how many such jobs the GPUs alone have room for, and the idle compute of the GPUs they could use."""
        asking = self.asking
        each = gpu[..., None, :] // asking.levels[:, None]
        idle = np.where(each > 0, gpu[..., None, :], 0).sum(axis=-1)
        slots = each.sum(axis=-1)[..., asking.level] // asking.gpus
        # Several GPUs are taken whole, so only whole multiples of them can be used.
        return slots, np.where(asking.gpus > 1, slots * asking.gpus * MILLI, idle[..., asking.level])
