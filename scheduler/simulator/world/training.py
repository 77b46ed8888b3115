"""The truth of a training job that follows Hops' iteration model (Hops 3.5) up to an error that only measuring reveals.

    rate(spots) = sum_i d_i * min_i(speed_i * throughput(type_i, N, nodes) * error(type_i, N, nodes))

`throughput` is eq. 1 to 5 from the true time modules, `speed` the node's own factor (server entity level), `error` what
the model does not know: a factor for each type and GPU count on one node, and for each type and node count over several,
as in the tables of Hops' paper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scheduler.estimator.iteration import throughput

if TYPE_CHECKING:
    from scheduler.model.speeds import Link, Profile
    from scheduler.simulator.world.truth import Spot


@dataclass(frozen=True, slots=True)
class Training:
    """Samples a second of one model. `errors`: GPU type -> (by GPU count on one node, by node count), from index 1 on."""

    profiles: Mapping[str, Profile]  # GPU type -> the true time modules
    links: Mapping[str, Link]
    errors: Mapping[str, tuple[Sequence[float], Sequence[float]]] = field(default_factory=dict)
    _known: dict[tuple[str, int, int], float] = field(default_factory=dict, repr=False, compare=False)

    def rate(self, spots: Sequence[Spot]) -> float:
        gpus = sum(spot.gpus for spot in spots)
        return gpus * min(spot.speed * self.per_gpu(spot.gpu_type or "", gpus, len(spots)) for spot in spots)

    def per_gpu(self, gpu_type: str, gpus: int, nodes: int) -> float:
        """Samples per second of each of `gpus` GPUs in all over `nodes` nodes of entity speed 1."""
        key = (gpu_type, gpus, nodes)
        if key not in self._known:
            value = throughput(self.profiles[gpu_type], self.links[gpu_type], gpus, nodes)
            if value is None:
                raise ValueError(
                    f"no throughput of {gpus} GPUs on {nodes} nodes of {gpu_type}: parameters or links missing"
                )
            self._known[key] = value * self._error(gpu_type, gpus, nodes)
        return self._known[key]

    def _error(self, gpu_type: str, gpus: int, nodes: int) -> float:
        if gpu_type not in self.errors:
            return 1.0
        aggregated, distributed = self.errors[gpu_type]
        table, at = (aggregated, gpus) if nodes == 1 else (distributed, nodes)
        return table[min(at, len(table) - 1)]
