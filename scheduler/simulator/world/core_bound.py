"""The true speed of a training job that depends on its CPU cores and on its nodes' memory traffic (CODA III-B, IV).

With c cores a GPU and the optimum c*, a job works at `c/c*` of its full speed up to c* ("a linear relationship", V-B) and
loses `OVER` of it for each core beyond ("drops slightly"). Spread over nodes it needs at most two cores per GPU, and the network
slows it by 25 to 30 % (IV-B.2). If the jobs on a node together ask for more than `SATURATED` of its memory bandwidth, the job
loses speed, up to its `sensitivity` when they ask for twice that (IV-C.2, Fig. 7). One unit of work is one second at full speed.
GPU utilisation changes as the speed does (V-B).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.simulator.world.truth import Spot

OVER = 0.004
SATURATED = 0.75
SPREAD_FACTOR, SPREAD_CORES = 0.725, 2


@dataclass(frozen=True, slots=True)
class CoreBound:
    """`optimum`: cores a GPU; `sensitivity`: the part of the speed that memory traffic can take."""

    optimum: int
    sensitivity: float = 0.0

    def rate(self, spots: Sequence[Spot]) -> float:
        spread = len(spots) > 1
        optimum = min(self.optimum, SPREAD_CORES) if spread else self.optimum
        speed = min(self._by_cores(spot.cores / spot.gpus, optimum) * self._by_traffic(spot) for spot in spots)
        return speed * (SPREAD_FACTOR if spread else 1.0)

    def used(self, cores: float) -> float:
        """Return how many of so many cores a GPU loading keeps busy: speed rises in a line to the optimum, so all up to there
        work, and none beyond.
        """
        return min(cores, float(self.optimum))

    def _by_cores(self, cores: float, optimum: int) -> float:
        return cores / optimum if cores <= optimum else max(0.5, 1.0 - OVER * (cores - optimum))

    def _by_traffic(self, spot: Spot) -> float:
        beyond = min(1.0, max(0.0, spot.pressure / SATURATED - 1.0))
        return spot.speed * (1.0 - self.sensitivity * beyond)
