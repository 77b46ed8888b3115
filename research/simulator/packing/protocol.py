"""The published packing protocol (Weng et al., USENIX ATC '23, section 6.1): arrivals only, until 1.3 times the capacity.

The list's pods in random order, then pods drawn from it with replacement until the next one's thousandths *per GPU* would
go beyond 1.3 times the cluster's GPUs (the study's own rule); nodes in random order, which settles equal scores. Each pod
is placed when it arrives or refused for good. The allocated share is read each time a pod came: the figure at p % is the
mean over the pods at which what has arrived so far rounds to p % of the capacity. *The study's bars and the figures most
quoted are those at 100 %*, not those at the end.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from research.simulator.packing.bestfit import BestFit
from research.simulator.packing.clustering import Clustering
from research.simulator.packing.dotproduct import DotProduct
from research.simulator.packing.fgd import Fgd
from research.simulator.packing.gpupacking import GpuPacking
from research.simulator.packing.least_stranded import LeastStranded
from research.simulator.packing.node_scores import NodeScores
from research.simulator.packing.pool import Pool
from research.simulator.packing.random_fit import RandomFit
from scheduler.planning.gaps import gap_worth
from scheduler.simulator.traces.openb import MILLI

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.random import Generator

    from research.simulator.packing.node_scores import Packer
    from research.simulator.packing.pool import Host
    from scheduler.simulator.traces.openb import Demand

RATIO = 1.3

BLIND: Mapping[str, Callable[[], Packer]] = {
    "random": RandomFit,
    "dotproduct": DotProduct,
    "clustering": Clustering,
    "packing": GpuPacking,
    "bestfit": BestFit,
}
EXPECTING: Mapping[str, Callable[[Sequence[Demand], tuple[str, ...]], Packer]] = {
    "fgd": Fgd.expecting,
    "berth": LeastStranded.expecting,
}
"""Those that expect a workload like these demands on nodes of these models: in the protocol the list itself."""

PACKERS = (*BLIND, *EXPECTING)


@dataclass(frozen=True, slots=True)
class Packed:
    """What became of the arrivals. `share_pct`: per cent of capacity arrived (rounded) -> per cent of GPU allocated, mean.

    `bound_pct`: more could not be allocated even if the parts that were accepted stood together as well as can be and
    nothing else were idle: GPU thousandths beside them that no other accepted part fits into are lost.
    """

    share_pct: Mapping[int, float]
    arrived: int
    refused: int
    bound_pct: float

    def share_at(self, pct: int) -> float:
        """Per cent allocated when `pct` per cent had arrived, or the last before it where a pod took more than one step."""
        return self.share_pct[max(at for at in self.share_pct if at <= pct)]


def arrivals(demands: Sequence[Demand], capacity: int, rng: Generator, ratio: float = RATIO) -> list[Demand]:
    """The list shuffled, then drawn from until `ratio` times the capacity (thousandths of GPU).

    A list beyond that is thinned by lot instead. ValueError if it asks for no GPU at all.
    """
    order = [demands[n] for n in rng.permutation(len(demands))]
    total = sum(demand.milli for demand in order)
    if total == 0:
        raise ValueError("no pod of the list asks for a GPU")
    while total > ratio * capacity:
        total -= order.pop(int(rng.integers(len(order)))).milli
    while True:
        drawn = demands[int(rng.integers(len(demands)))]
        if total + drawn.gpu_milli > ratio * capacity:
            return order
        order.append(drawn)
        total += drawn.milli


def pack(hosts: Sequence[Host], demands: Sequence[Demand], packer: str, seed: int) -> Packed:
    """One run. The same seed gives every packer the same arrivals and the same order of nodes."""
    rng = np.random.default_rng(seed)
    pool = Pool([hosts[n] for n in rng.permutation(len(hosts))])
    order = arrivals(demands, pool.capacity, rng)
    chosen = BLIND[packer]() if packer in BLIND else EXPECTING[packer](demands, pool.models)
    node_scores = NodeScores(chosen, pool, np.random.default_rng([seed, 1]))
    return _run(node_scores, order)


def fewest_gpus(parts: Mapping[int, float]) -> float:
    """The fewest GPUs (in fractions of one) on which these parts fit together: no packing needs less.

    The program's value by its duals; a part's price is the worth of a gap of just its size.
    """
    worth = gap_worth(parts)
    return float(sum(count * worth[size] for size, count in parts.items()))


def _run(node_scores: NodeScores, order: Sequence[Demand]) -> Packed:
    pool, shares = node_scores.pool, dict[int, list[float]]()
    came = refused = allocated = 0
    parts = Counter[int]()
    for demand in order:
        placed = node_scores.place(demand) is not None
        refused += not placed
        allocated += demand.milli if placed else 0
        parts[demand.gpu_milli] += placed and demand.shares
        came += demand.milli
        shares.setdefault(round(100 * came / pool.capacity), []).append(100 * allocated / pool.capacity)
    means = {at: float(np.mean(values)) for at, values in shares.items()}
    lost = MILLI * fewest_gpus(parts) - sum(milli * count for milli, count in parts.items())
    return Packed(means, len(order), refused, 100 - 100 * lost / pool.capacity)
