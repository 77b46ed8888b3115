"""Read nodes for the REST API, with what is held on each, in a constant number of queries."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from portal.jobs.models import Allocation, GpuAllocation, Job

if TYPE_CHECKING:
    from collections.abc import Sequence

    from portal.cluster.models import Node
    from portal.tenants.models import Tenant, User


def nodes_with_use(nodes: Sequence[Node], *, user: User, tenant: Tenant | None) -> list[Node]:
    """Add to each node `used`: cores, memory_mib, gpus {index: job id or None} and parts, foreign jobs as None."""
    live = Allocation.objects.filter(node__in=nodes, released_at=None).select_related("attempt")
    parts = list(live.order_by("attempt_id"))
    visible = _visible_jobs({part.attempt.job_id for part in parts}, user=user, tenant=tenant)
    rows = GpuAllocation.objects.filter(allocation__in=[part.pk for part in parts], released_at=None)
    gpus_of = defaultdict(list)
    for allocation_id, index in rows.order_by("gpu__index").values_list("allocation_id", "gpu__index"):
        gpus_of[allocation_id].append(index)
    parts_of = defaultdict(list)
    for part in parts:
        parts_of[part.node_id].append(part)
    for node in nodes:
        node.used = _use(parts_of[node.pk], gpus_of=gpus_of, visible=visible)
    return list(nodes)


def _visible_jobs(ids: set[int], *, user: User, tenant: Tenant | None) -> set[int]:
    jobs = Job.objects.visible_to(user).filter(pk__in=ids)
    return set((jobs.filter(tenant=tenant) if tenant else jobs).values_list("pk", flat=True))


def _use(parts: Sequence[Allocation], *, gpus_of: dict[int, list[int]], visible: set[int]) -> dict[str, Any]:
    def job(part: Allocation) -> int | None:
        return part.attempt.job_id if part.attempt.job_id in visible else None

    return {
        "cores": sum(len(part.core_ids) for part in parts),
        "memory_mib": sum(part.memory_mib for part in parts),
        "gpus": {index: job(part) for part in parts for index in gpus_of[part.pk]},
        "parts": [
            {
                "job": job(part),
                "gpus": gpus_of[part.pk],
                "cores": len(part.core_ids),
                "memory_mib": part.memory_mib,
                "state": part.state,
            }
            for part in parts
        ],
    }
