"""CODA's arrays (CODA V-C; algorithms.md section 4): the cluster divided by the needs of its history of jobs.

`gpu-large` (R_1 >= 4) and `gpu-small` (0 < R_1 < 4) own disjoint sets of whole GPU nodes, with *reserved* cores there: the 95th
percentile of tuned cores per GPU times the node's GPUs. `cpu` (R = {0}) owns all other cores, on every node. `gpu-large` gets as
many nodes as its jobs needed at one time, running and queued, but at most 80 % of the nodes with 4 GPUs or more; none where GPU
jobs are known and none of them was large. With no history: 3 cores per GPU, and half of those nodes. Where the specification is
silent: `gpu-large` gets the largest nodes first, in turns between GPU types, so that neither array is without a type. Nodes that
are down count too, so that an outage does not move the border.

*Shares*: weighted dominant resource fairness within an array.
GPU jobs count by their tenants' share of all GPUs (both GPU arrays together), each GPU by its type's weight; CPU jobs by
their share of the CPU array's cores. Cores held by CPU jobs never count in the GPU share, nor the reverse, so that a
tenant with many GPUs is not starved of CPUs. A share is divided by the tenant's weight: the smallest is next.
A part of a shared GPU counts as its thousandths.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from scheduler.model.placements import is_instance, share_of_gpu

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from scheduler.model import ArrayHistory, Job, Node, Running, Tenant


LARGE_FROM_GPUS = 4
LARGE_SHARE_MOST = 0.8
DEFAULT_LARGE_SHARE = 0.5
DEFAULT_RESERVED_PER_GPU = 3.0
TUNED_PERCENTILE = 95


class Array(StrEnum):
    """The three arrays. A cluster that is not divided has all its GPU jobs and nodes in `gpu-small`."""

    CPU = "cpu"
    GPU_SMALL = "gpu-small"
    GPU_LARGE = "gpu-large"


def array_of(requirement: Sequence[int]) -> Array:
    """The array that a job with this requirement set belongs to."""
    if requirement[0] == 0:
        return Array.CPU
    return Array.GPU_LARGE if requirement[0] >= LARGE_FROM_GPUS else Array.GPU_SMALL


@dataclass(frozen=True, slots=True)
class Division:
    """Which nodes are gpu-large's, and the cores reserved per node. `divided` false: one GPU array, nothing reserved."""

    large: frozenset[int]
    reserved_cores: Mapping[int, int]
    divided: bool = True

    def array_of_job(self, requirement: Sequence[int]) -> Array:
        own = array_of(requirement)
        return own if self.divided or own is Array.CPU else Array.GPU_SMALL

    def array_of_node(self, node: int) -> Array:
        """The GPU array that owns the node's GPUs."""
        return Array.GPU_LARGE if node in self.large else Array.GPU_SMALL

    def reserved(self, node: int) -> int:
        return self.reserved_cores.get(node, 0)


UNDIVIDED = Division(frozenset(), {}, divided=False)
"""One array for all GPU jobs, every core open to all, as in Hops."""


@dataclass(frozen=True, slots=True)
class PastJob:
    """A large job of the history: when it joined the queue, when it ended (None = not yet), GPUs held or asked."""

    queued_s: float
    ended_s: float | None
    gpus: int


def peak_gpus(jobs: Iterable[PastJob]) -> int:
    """The highest number of GPUs that the jobs held plus queued at one time; 0 when there were none."""
    # At one instant ends come before arrivals: a job that follows another does not double its demand.
    events = sorted(
        event
        for job in jobs
        for event in ((job.queued_s, job.gpus), (math.inf if job.ended_s is None else job.ended_s, -job.gpus))
    )
    peak = demand = 0
    for _, change in events:
        demand += change
        peak = max(peak, demand)
    return peak


def percentile(values: Sequence[float], percent: float) -> float:
    """Nearest-rank percentile: the least value with at least `percent` of all at or below it."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]


def divide(
    nodes: Iterable[Node],
    history: ArrayHistory,
    *,
    reserved_per_gpu: float | None = None,
    large_share: float | None = None,
) -> Division:
    """The division of these nodes. `reserved_per_gpu` and `large_share` (of nodes with >= 4 GPUs) override history."""
    every = list(nodes)
    if reserved_per_gpu is None:
        tuned = history.tuned_cores_per_gpu
        reserved_per_gpu = percentile(tuned, TUNED_PERCENTILE) if tuned else DEFAULT_RESERVED_PER_GPU
    reserved = {
        node.id: min(node.cores_total, math.ceil(reserved_per_gpu * node.gpus_total))
        for node in every
        if node.gpus_total
    }
    return Division(frozenset(_large_nodes(every, history.large_gpus_peak, large_share)), reserved)


def _large_nodes(nodes: Sequence[Node], peak: int | None, share: float | None) -> list[int]:
    able = [node for node in nodes if node.gpus_total >= LARGE_FROM_GPUS and not is_instance(node.gpu_type)]
    if share is not None or peak is None:
        count = int(len(able) * (DEFAULT_LARGE_SHARE if share is None else share))
        return [node.id for node in _in_turns(able)[:count]]
    chosen: list[int] = []
    gpus = 0
    for node in _in_turns(able)[: int(len(able) * LARGE_SHARE_MOST)]:
        if gpus >= peak:
            break
        chosen.append(node.id)
        gpus += node.gpus_total
    return chosen


def _in_turns(nodes: Sequence[Node]) -> list[Node]:
    """The nodes, largest first within a type; the types take turns in proportion to their nodes."""
    by_type: dict[str, list[Node]] = {}
    for node in nodes:
        by_type.setdefault(node.gpu_type or "", []).append(node)
    placed = [
        ((position + 0.5) / len(own), name, node)
        for name, own in by_type.items()
        for position, node in enumerate(sorted(own, key=lambda each: (-each.gpus_total, each.id)))
    ]
    return [node for _, _, node in sorted(placed, key=lambda each: (each[0], each[1]))]


@dataclass(slots=True)
class Shares:
    """The tenants' holdings of one resource, in its units, beside its capacity. `add` is the only change."""

    capacity: float
    weights: Mapping[int, float]
    held: dict[int, float] = field(default_factory=dict)

    def of(self, tenant: int) -> float:
        """The weighted share; a tenant that nobody listed weighs 1."""
        weight = self.weights.get(tenant, 1.0)
        return self.held.get(tenant, 0.0) / (self.capacity or 1.0) / weight

    def add(self, tenant: int, units: float) -> None:
        self.held[tenant] = self.held.get(tenant, 0.0) + units


def gpu_units(gpu_type: str | None, gpus: float, gpu_weights: Mapping[str, float]) -> float:
    """GPUs of a type, weighted: the operator's figure; else 1, and of an instance its part of a GPU."""
    weight = gpu_weights.get(gpu_type or "")
    return gpus * (share_of_gpu(gpu_type or "") if weight is None else weight)


def gpu_shares(
    nodes: Iterable[Node], running: Iterable[Running], tenants: Iterable[Tenant], gpu_weights: Mapping[str, float]
) -> Shares:
    """Shares of all GPUs on `nodes` (those that are up), by the GPU jobs' holdings anywhere."""
    every = list(nodes)
    types = {node.id: node.gpu_type for node in every}
    capacity = sum(gpu_units(node.gpu_type, node.gpus_there, gpu_weights) for node in every)
    shares = Shares(capacity, {tenant.id: tenant.weight for tenant in tenants})
    for live in running:
        for piece in live.pieces:
            shares.add(live.tenant, gpu_units(types.get(piece.node), piece.gpu_units, gpu_weights))
    return shares


def cpu_shares(
    nodes: Iterable[Node], running: Iterable[Running], tenants: Iterable[Tenant], division: Division
) -> Shares:
    """Shares of the CPU array's cores (those not reserved), by the CPU jobs' holdings, borrowed cores included."""
    capacity = sum(node.cores_total - division.reserved(node.id) for node in nodes)
    shares = Shares(capacity, {tenant.id: tenant.weight for tenant in tenants})
    for live in running:
        if not live.gpus:
            shares.add(live.tenant, live.cores)
    return shares


def least_units(job: Job, gpus_by_type: Mapping[str, int], gpu_weights: Mapping[str, float]) -> float:
    """A GPU job's minimum requirement in weighted GPUs: at the mean weight of the GPUs it may use."""
    counts = {name: n for name, n in gpus_by_type.items() if n and job.may_use(name)}
    total = sum(counts.values())
    if not total:
        return float(job.min_gpus)
    return job.min_gpus * sum(gpu_units(name, n, gpu_weights) for name, n in counts.items()) / total
