"""The layers of the throughput estimator: each source's knowledge of a job's speed (algorithms.md section 2)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from scheduler.estimator.iteration import throughput
from scheduler.estimator.measured import Measured, cell_key, signature
from scheduler.estimator.scaling import USUAL, TypeSpeeds, Usual

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scheduler.model import Job, Node
    from scheduler.model.speeds import Knowledge


FORETOLD = "foretold"
"""The source of a cell that holds no measurement (`Cell.count` 0)."""

GUESSES = frozenset({FORETOLD, "theory-assumed", "nodes", "sizes"})
"""The sources of a speed that is not known yet but computed from other knowledge of the job: to run there teaches it.

"assumed" is none of them: where nothing of the job is known, it is `planning.exploring` that sends it there.
"""

ASSUMED_RHO = 2.0
"""The sensitivity of a job of which nothing tells it: above the default sigma, so that it stays on one node."""


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
class EntityLayer:
    """Measured on this very node. `places`: by signature, (node, GPUs in all, nodes, mean) of each cell."""

    knowledge: Knowledge
    places: Mapping[str, Sequence[tuple[int, int, int, float]]] = field(default_factory=dict)

    def per_gpu(self, job: Job, node: Node, gpus: int, nodes: int) -> Estimate | None:
        if node.id < 0:
            return None  # a node that stands for a class, of which thousands are asked
        cell = self.knowledge.cells.get(cell_key(signature(job), node.id, gpus, nodes))
        return None if cell is None else Estimate(cell.mean, "entity", in_samples=True)

    def sensitivity(self, job: Job) -> float | None:
        return None  # rho is a property of the type


@dataclass(frozen=True, slots=True)
class TypeLayer:
    """Measured on any node of the type. `measured`: by signature and type."""

    knowledge: Knowledge
    measured: Mapping[str, Mapping[str, Measured]]

    def per_gpu(self, job: Job, node: Node, gpus: int, nodes: int) -> Estimate | None:
        cell = self.knowledge.cells.get(cell_key(signature(job), node.gpu_type or "", gpus, nodes))
        return None if cell is None else Estimate(cell.mean, "type" if cell.count else FORETOLD, in_samples=True)

    def sensitivity(self, job: Job) -> float | None:
        """The largest over the types on which a size was measured on one node and on several."""
        known = (each.sensitivity() for each in self.measured.get(signature(job), {}).values())
        return max((rho for rho in known if rho is not None), default=None)


@dataclass(frozen=True, slots=True)
class TheoryLayer:
    """The iteration model from profiled time modules, data times and bandwidths. `types`: by signature, the profiled."""

    knowledge: Knowledge
    types: Mapping[str, Sequence[str]]

    def per_gpu(self, job: Job, node: Node, gpus: int, nodes: int) -> Estimate | None:
        gpu_type = node.gpu_type or ""
        value = self._throughput(signature(job), gpu_type, gpus, nodes)
        if value is None:
            return None
        link = self.knowledge.links.get(gpu_type) if gpus > 1 else None
        assumed = link is not None and (link.between_assumed if nodes > 1 else link.within_assumed)
        return Estimate(value, "theory-assumed" if assumed else "theory", in_samples=True)

    def _throughput(self, name: str, gpu_type: str, gpus: int, nodes: int) -> float | None:
        profile = self.knowledge.profiles.get((name, gpu_type))
        return None if profile is None else throughput(profile, self.knowledge.links.get(gpu_type), gpus, nodes)

    def sensitivity(self, job: Job) -> float | None:
        """The largest over the profiled types: the careful choice."""
        name = signature(job)
        types = self.types.get(name, ())
        pairs = [(self._throughput(name, each, 1, 1), self._throughput(name, each, 2, 2)) for each in types]
        return max((one / two for one, two in pairs if one and two), default=None)


@dataclass(frozen=True, slots=True)
class NodesLayer:
    """Measured on the type over as many nodes, with another number of GPUs."""

    measured: Mapping[str, Mapping[str, Measured]]
    usual: Usual = USUAL

    def per_gpu(self, job: Job, node: Node, gpus: int, nodes: int) -> Estimate | None:
        known = self.measured.get(signature(job), {}).get(node.gpu_type or "")
        value = None if known is None or nodes == 1 else known.over(gpus, nodes, self.usual.of(job.tenant))
        return None if value is None else Estimate(value, "nodes", in_samples=True)

    def sensitivity(self, job: Job) -> float | None:
        """1 where it ran both ways, but with no common number of GPUs: the costs of spreading and of the number of GPUs cannot
        be told apart, and need not be, for the speeds themselves decide.
        """
        return 1.0 if any(each.both_ways for each in self.measured.get(signature(job), {}).values()) else None


@dataclass(frozen=True, slots=True)
class SizesLayer:
    """Measured on one node of the type, with other numbers of GPUs."""

    measured: Mapping[str, Mapping[str, Measured]]
    usual: Usual = USUAL

    def per_gpu(self, job: Job, node: Node, gpus: int, nodes: int) -> Estimate | None:
        types = self.measured.get(signature(job), {})
        known = types.get(node.gpu_type or "")
        value = None if known is None or nodes > 1 else known.on_one(gpus, self.usual.of(job.tenant), types)
        return None if value is None else Estimate(value, "sizes", in_samples=True)

    def sensitivity(self, job: Job) -> float | None:
        return None


@dataclass(frozen=True, slots=True)
class AssumedLayer:
    """Per-GPU throughput = the type's relative speed * r^e (`scaling.Usual`; r^-0.1 where nothing is known).

    Over several nodes 1/`ASSUMED_RHO` of it: not worth spreading.
    """

    speeds: TypeSpeeds
    usual: Usual = USUAL

    def per_gpu(self, job: Job, node: Node, gpus: int, nodes: int) -> Estimate:
        speed = self.speeds.of(job.tenant).get(node.gpu_type or "", 1.0)
        rho = ASSUMED_RHO if nodes > 1 else 1.0
        return Estimate(speed * gpus ** self.usual.of(job.tenant) / rho, "assumed", in_samples=False)

    def sensitivity(self, job: Job) -> float:
        return ASSUMED_RHO
