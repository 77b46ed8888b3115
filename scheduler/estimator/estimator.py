"""Throughput estimator (Hops 3.2-3.5; algorithms.md section 2): layers asked top-down, the first that answers is used.

    T(config) = min_i(per_gpu_throughput_i) * sum_i d_i        d_i GPUs on node i

1. *entity*: measured on this node, for this number of GPUs and nodes; 2. *type*: the same on any node of the type; 3. *theory*:
the iteration model from the profiled time modules; 4. *nodes*: measured on the type over as many nodes (or nearly), with another
number of GPUs; 5. *sizes*: the same on one node; 6. *assumed*: speed(type) * r^e per GPU, scaled by the job's known speed on
other types; speed(type) is the operator's, or learned; e is -0.1, or learned (`scaling`).

Hops' distributed table, which has only nodes, would answer where `nodes` does, but ahead of the theory. We ask the theory first:
it knows both costs, of the GPUs' number and of their spreading, where another size's measurement holds the two unseparated; it
is still a measurement of this job, so it goes before assuming (which knows no price of spreading).

The assumed layer knows relative speeds only, no samples: where a job has measured or modelled types beside assumed ones, the
assumed are scaled by the known, so that both can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from scheduler.copies import replace
from scheduler.errors import InvalidJob
from scheduler.estimator.layers import (
    ASSUMED_RHO,
    AssumedLayer,
    EntityLayer,
    Estimate,
    Layer,
    NodesLayer,
    SizesLayer,
    TheoryLayer,
    TypeLayer,
)
from scheduler.estimator.measured import by_node, by_type, signature
from scheduler.estimator.scaling import learn_type_speeds, learn_usual
from scheduler.model import Job, Node
from scheduler.model.placements import is_instance, share_of_gpu
from scheduler.model.speeds import Knowledge


@dataclass(frozen=True, slots=True)
class Throughput:
    """A configuration's throughput and the layer of its slowest node."""

    value: float
    source: str


@dataclass(frozen=True, slots=True)
class Estimator:
    """The layers, best first. The last one must always answer."""

    layers: Sequence[Layer]
    nodes: Sequence[Node] = ()  # the cluster's, to find a job's speed on each type
    signatures: frozenset[str] | None = None  # those that any layer but the last knows; None = ask them all
    exploring: set[int] = field(default_factory=set, compare=False)  # jobs that a planning may spread to find out
    _asked: dict[int, Sequence[Layer]] = field(default_factory=dict, repr=False, compare=False)
    _known: dict[int, dict[str, float]] = field(default_factory=dict, repr=False, compare=False)
    _scales: dict[tuple[int, str, int, int], float] = field(default_factory=dict, repr=False, compare=False)
    _rhos: dict[int, tuple[float, str]] = field(default_factory=dict, repr=False, compare=False)

    def samples_per_s(self, job: Job) -> dict[str, float]:
        """Per-GPU throughput by type, measured or modelled, at the size nearest to the mean requirement (eq. 9); {}: of none.

        On as few nodes of the type as hold the size. Where that is not known, that of one GPU, else of another size. On a
        type of which nothing is known: by the types that are, and how fast types are against each other.
        """
        if job.id not in self._known:
            mean = sum(job.requirement) / len(job.requirement)
            nearest, *others = sorted(job.requirement, key=lambda each: (abs(each - mean), each))
            found: dict[str, float] = {}
            nodes = self.nodes if len(self._layers_for(job)) > 1 and not job.is_cpu else ()
            for node in _largest(nodes):
                answers = (
                    self._by_type(job, node, size, -(-size // max(1, node.gpus_total)))
                    for size in (nearest, 1, *others)
                )
                estimate = next((each for each in answers if each is not None), None)
                if estimate is not None:
                    found[node.gpu_type or ""] = estimate.per_gpu
            self._known[job.id] = found | self._unmeasured(job, found, nearest)
        return self._known[job.id]

    def _unmeasured(self, job: Job, known: Mapping[str, float], gpus: int) -> dict[str, float]:
        """The same on the other types: else a job that ran only on a fast type would look shorter than it is."""
        if not known:
            return {}
        assumed = {node.gpu_type or "": self._assumed(job, node, gpus, 1) for node in _largest(self.nodes)}
        level = median(known[each] / assumed[each] for each in known)
        return {each: own * level for each, own in assumed.items() if each not in known}

    def _by_type(self, job: Job, node: Node, gpus: int, nodes: int) -> Estimate | None:
        answers = (each.per_gpu(job, node, gpus, nodes) for each in self.layers if not isinstance(each, EntityLayer))
        return next((each for each in answers if each is not None and each.in_samples), None)

    def is_known(self, job: Job) -> bool:
        """Whether anything is known of the job's speed beside its GPU type's: else equal nodes are equal to it."""
        return len(self._layers_for(job)) > 1

    def _layers_for(self, job: Job) -> Sequence[Layer]:
        """The layers worth asking: a planning asks for every job, node and size, mostly of jobs never seen before."""
        if job.id not in self._asked:
            known = self.signatures is None or signature(job) in self.signatures
            self._asked[job.id] = self.layers if known else self.layers[-1:]
        return self._asked[job.id]

    def _scale(self, job: Job, node: Node, gpus: int, nodes: int) -> float:
        """Samples per second of one unit of the assumed layer there, by the job's known speed elsewhere.

        Known on one node of the type: that, and the cost of spreading on the types where both are known. Else the median over
        the types known on as many nodes, else on one, else on as few as hold the GPUs.
        """
        key = (job.id, node.gpu_type or "", gpus, nodes)
        if key not in self._scales:
            alike, single = self._ratios(job, gpus, nodes), self._ratios(job, gpus, 1)
            if nodes > 1 and key[1] in single:
                prices = [ratio / single[each] for each, ratio in alike.items() if each in single]
                self._scales[key] = single[key[1]] * (median(prices) if prices else 1.0)
            else:
                ratios = alike or single or self._ratios(job, gpus, None)
                self._scales[key] = median(ratios.values()) if ratios else 1.0
        return self._scales[key]

    def _ratios(self, job: Job, gpus: int, nodes: int | None) -> dict[str, float]:
        """The known speed over the assumed one, by type, on `nodes` nodes; None = as few of the type as hold the GPUs."""
        found: dict[str, float] = {}
        for node in _largest(self.nodes):
            over = -(-gpus // max(1, node.gpus_total)) if nodes is None else nodes
            if (known := self._by_type(job, node, gpus, over)) is not None:
                found[node.gpu_type or ""] = known.per_gpu / self._assumed(job, node, gpus, over)
        return found

    def _assumed(self, job: Job, node: Node, gpus: int, nodes: int) -> float:
        estimate = self.layers[-1].per_gpu(job, node, gpus, nodes)
        return 1.0 if estimate is None else estimate.per_gpu

    def per_gpu(self, job: Job, node: Node, gpus: int, nodes: int) -> Estimate:
        """The first layer's answer. InvalidJob when it is not a positive finite number, or when no layer answers."""
        asked = self._asked.get(job.id) or self._layers_for(job)
        for layer in asked:
            estimate = layer.per_gpu(job, node, gpus, nodes)
            if estimate is None:
                continue
            if not estimate.in_samples and nodes > 1 and job.id in self.exploring:
                estimate = replace(estimate, per_gpu=estimate.per_gpu * ASSUMED_RHO)  # to find out whether it is so
            if not (math.isfinite(estimate.per_gpu) and estimate.per_gpu > 0):
                detail = (
                    f"throughput on {node.name} is {estimate.per_gpu} ({estimate.source} layer); it must be above 0"
                )
                raise InvalidJob(job.id, detail)
            if estimate.in_samples:
                return estimate
            if len(asked) == 1:
                return estimate  # nothing is known of the job, so there is nothing to scale by
            return replace(estimate, per_gpu=estimate.per_gpu * self._scale(job, node, gpus, nodes))
        raise InvalidJob(job.id, f"no throughput known on {node.name}; add the assumed layer last")

    def throughput(self, job: Job, nodes: Sequence[Node], gpus: int) -> Throughput:
        """T of `gpus` GPUs in all, spread over `nodes`: the slowest node's per-GPU throughput, times the GPUs."""
        slowest = min((self.per_gpu(job, node, gpus, len(nodes)) for node in nodes), key=lambda each: each.per_gpu)
        return Throughput(slowest.per_gpu * gpus, slowest.source)

    def sensitivity(self, job: Job) -> float:
        """The sensitivity rho of the first layer that knows it; high when none does, 1 for a job that is to find out."""
        rho, source = self._rho(job)
        return 1.0 if source == "assumed" and job.id in self.exploring else rho

    def explore(self, jobs: Iterable[int]) -> None:
        """Have these jobs spread, and no others, until it is said otherwise."""
        self.exploring.clear()
        self.exploring.update(jobs)

    def tells_spreading(self, job: Job) -> bool:
        """Whether the job's sensitivity was measured or modelled."""
        return self._rho(job)[1] != "assumed"

    def _rho(self, job: Job) -> tuple[float, str]:
        """And "assumed" where only the last layer answered."""
        if job.id not in self._rhos:
            known = (
                (rho, "assumed" if isinstance(layer, AssumedLayer) else "known")
                for layer in self._layers_for(job)
                if (rho := layer.sensitivity(job)) is not None
            )
            self._rhos[job.id] = next(known, (ASSUMED_RHO, "assumed"))
        return self._rhos[job.id]


def _largest(nodes: Sequence[Node]) -> Iterable[Node]:
    """A node with the most GPUs of each type, types in the order of their first node."""
    found: dict[str, Node] = {}
    for node in nodes:
        if node.gpu_type and (node.gpu_type not in found or node.gpus_total > found[node.gpu_type].gpus_total):
            found[node.gpu_type] = node
    return found.values()


def estimator_for(knowledge: Knowledge, speeds: Mapping[str, float], nodes: Sequence[Node]) -> Estimator:
    """All layers, top-down. Where nobody said how fast instances are, they have their part of a GPU's speed."""
    kinds = {node.gpu_type for node in nodes if node.gpu_type}
    speeds = {**{each: share_of_gpu(each) for each in kinds if is_instance(each)}, **speeds}
    known = frozenset(key.signature for key in knowledge.cells) | {name for name, _ in knowledge.profiles}
    measured = by_type(knowledge.cells)
    usual = learn_usual(measured)
    layers = (
        EntityLayer(knowledge, by_node(knowledge.cells)),
        TypeLayer(knowledge, measured),
        TheoryLayer(knowledge, _types(knowledge.profiles)),
        NodesLayer(measured, usual),
        SizesLayer(measured, usual),
        AssumedLayer(learn_type_speeds(measured, speeds, usual), usual),
    )
    return Estimator(layers, nodes, known)


def _types(pairs: Iterable[tuple[str, str]]) -> Mapping[str, Sequence[str]]:
    found: dict[str, list[str]] = {}
    for name, gpu_type in pairs:
        found.setdefault(name, []).append(gpu_type)
    return found
