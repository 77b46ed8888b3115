"""Weighted dominant resource fairness within an array (CODA V-C; algorithms.md section 4).

GPU jobs count by their tenants' share of all GPUs (both GPU arrays together), each GPU by its type's weight; CPU jobs by
their share of the CPU array's cores. Cores held by CPU jobs never count in the GPU share, nor the reverse, so that a
tenant with many GPUs is not starved of CPUs. A share is divided by the tenant's weight: the smallest is next.
A part of a shared GPU counts as its thousandths.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scheduler.model.instances import share_of_gpu

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from scheduler.fairness.arrays import Division
    from scheduler.model import Job, Node, Running, Tenant


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
