"""Throughput estimator (Hops 3.2-3.5; algorithms.md section 2): layers asked top-down, the first that answers is used.

    T(config) = min_i(per_gpu_throughput_i) * sum_i d_i        d_i GPUs on node i

Today's one layer is *assumed*, for jobs that report nothing: per-GPU throughput = speed(type) * r^-0.1, in units of one
GPU of relative speed 1 - not samples per second, so no age follows from it. Measured and theoretical layers go above
it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from scheduler.errors import InvalidJob

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scheduler.model import Job, Node

SCALING_EXPONENT = -0.1
"""How per-GPU throughput falls with the GPU count r, by assumption."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Per-GPU throughput; `in_samples` when its unit is samples per second. `source` is the layer's name."""

    per_gpu: float
    source: str
    in_samples: bool


class Layer(Protocol):
    """One source of per-GPU throughput. None = it knows nothing about this case, ask the next one."""

    def per_gpu(self, job: Job, node: Node, gpus: int, nodes: int) -> Estimate | None:
        """For `job` running on `gpus` GPUs in all over `nodes` nodes, `node` being one of them."""
        ...

    def sensitivity(self, job: Job) -> float | None:
        """rho: per-GPU throughput aggregated over distributed (Hops eq. 10)."""
        ...


@dataclass(frozen=True, slots=True)
class AssumedLayer:
    """Per-GPU throughput = the type's relative speed * r^-0.1; sensitivity high, so placements stay aggregated."""

    speeds: Mapping[str, float]

    def per_gpu(self, job: Job, node: Node, gpus: int, nodes: int) -> Estimate:
        speed = self.speeds.get(node.gpu_type or "", 1.0)
        return Estimate(speed * gpus**SCALING_EXPONENT, "assumed", in_samples=False)

    def sensitivity(self, job: Job) -> float:
        return math.inf


@dataclass(frozen=True, slots=True)
class Throughput:
    """A configuration's throughput and the layer of its slowest node."""

    value: float
    source: str


@dataclass(frozen=True, slots=True)
class Estimator:
    """The layers, best first. The last one must always answer."""

    layers: Sequence[Layer]

    def per_gpu(self, job: Job, node: Node, gpus: int, nodes: int) -> Estimate:
        """The first layer's answer. InvalidJob when it is not a positive finite number, or when no layer answers."""
        for layer in self.layers:
            estimate = layer.per_gpu(job, node, gpus, nodes)
            if estimate is None:
                continue
            if not (math.isfinite(estimate.per_gpu) and estimate.per_gpu > 0):
                detail = (
                    f"throughput on {node.name} is {estimate.per_gpu} ({estimate.source} layer); it must be above 0"
                )
                raise InvalidJob(job.id, detail)
            return estimate
        raise InvalidJob(job.id, f"no throughput known on {node.name}; add the assumed layer last")

    def throughput(self, job: Job, nodes: Sequence[Node], gpus: int) -> Throughput:
        """T of `gpus` GPUs in all, spread over `nodes`: the slowest node's per-GPU throughput, times the GPUs."""
        slowest = min((self.per_gpu(job, node, gpus, len(nodes)) for node in nodes), key=lambda each: each.per_gpu)
        return Throughput(slowest.per_gpu * gpus, slowest.source)

    def sensitivity(self, job: Job) -> float:
        """The sensitivity rho of the first layer that knows it; high when none does."""
        known = (layer.sensitivity(job) for layer in self.layers)
        return next((rho for rho in known if rho is not None), math.inf)
