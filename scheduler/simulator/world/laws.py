"""Laws: how fast a job of a trace or a generator really runs. `Scaled`: a trace has one run of it; `Training`: Hops' iteration
model (Hops 3.5), up to an error that only measuring reveals; `Elsewhere`: a drawn job on GPU types unknown to its generator.

Where a job was not seen, `Scaled` and `Elsewhere` follow the scheduler's own assumption (algorithms.md section 2, layer 4): its
speed is proportional to the relative speeds of the GPU type and of the node, and the speed per GPU falls with the number of GPUs
as `r^-0.1`. A training's is

    rate(spots) = sum_i d_i * min_i(speed_i * throughput(type_i, N, nodes) * error(type_i, N, nodes))

`throughput` is eq. 1 to 5 from the true time modules, `speed` the node's own factor (server entity level), `error` what
the model does not know: a factor for each type and GPU count on one node, and for each type and node count over several,
as in the tables of Hops' paper.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scheduler.copies import replace
from scheduler.estimator.iteration import throughput
from scheduler.simulator.world.truth import Law, Spot, Steady, TracedJob, World

if TYPE_CHECKING:
    from scheduler.model.speeds import Link, Profile


EXPONENT = 0.9


@dataclass(frozen=True, slots=True)
class Scaled:
    """Seconds of the traced run, done a second: 1 on `gpus` GPUs of relative speed `speed`."""

    gpus: int
    speed: float = 1.0
    gpu_speeds: Mapping[str, float] = field(default_factory=dict)

    def rate(self, spots: Sequence[Spot]) -> float:
        slowest = min(self.gpu_speeds.get(spot.gpu_type or "", 1.0) * spot.speed for spot in spots)
        size: float = (sum(spot.gpus for spot in spots) / self.gpus) ** EXPONENT
        return size * slowest / self.speed


def law_of(gpus: int, gpu_type: str | None, gpu_speeds: Mapping[str, float], *, elastic: bool) -> Law:
    """The law of a job that was seen on `gpus` GPUs. A CPU job is as fast anywhere."""
    if gpus == 0 or not (elastic or gpu_speeds):
        return Steady()
    return Scaled(gpus, gpu_speeds.get(gpu_type or "", 1.0), gpu_speeds)


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


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """`law` on the types that it knows; on others that of `reference`, times their relative speed."""

    law: Law
    known: Container[str]
    reference: str
    gpu_speeds: Mapping[str, float] = field(default_factory=dict)

    def rate(self, spots: Sequence[Spot]) -> float:
        return self.law.rate(
            [
                spot
                if (name := spot.gpu_type or "") in self.known
                else replace(spot, gpu_type=self.reference, speed=spot.speed * self.gpu_speeds.get(name, 1.0))
                for spot in spots
            ]
        )


def at_home(jobs: Iterable[TracedJob], world: World, *, known: Sequence[str], reference: str) -> list[TracedJob]:
    """The jobs as they go in that world: themselves where their generator knows all its GPU types."""
    strange = {node.gpu_type for node in world.nodes if node.gpu_type and node.gpus_total} - set(known)
    if not strange:
        return list(jobs)
    return [replace(each, law=Elsewhere(each.law, known, reference, world.gpu_speeds)) for each in jobs]
