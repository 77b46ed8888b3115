"""Read nodes with the jobs on each, in a constant number of queries. Pages must mask other tenants' parts."""

from __future__ import annotations

from collections import Counter, defaultdict
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from django.db.models import Count, Prefetch, Q, Sum
from django.utils import timezone

from portal.cluster.gpu_states import Free, free_by_node
from portal.cluster.models import Gpu
from portal.foundation.bulk import among
from portal.work.jobs.held_time import Length, active_rates, union_s
from portal.work.jobs.models import Allocation, GpuAllocation, Job
from portal.work.jobs.use import WHOLE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from portal.cluster.models import Node
    from portal.people.tenants.models import Tenant, User


NOTHING = (0, 0)


def nodes_counted(nodes: Sequence[Node]) -> list[Node]:
    """Add to each node `counts`: of its GPUs, and of its held cores and memory (MiB). Four queries."""
    ids = among(node.pk for node in nodes)
    present = Gpu.objects.filter(node__in=ids, missing_since=None).order_by()
    held = GpuAllocation.objects.filter(allocation__node__in=ids, allocation__released_at=None, released_at=None)
    types: dict[int, dict[str, int]] = defaultdict(dict)
    gpus = Counter[int]()
    for node_id, name, count in present.with_type().values_list("node_id", "type_name").annotate(n=Count("pk")):
        gpus[node_id] += count
        if name is not None:
            types[node_id][name] = count
    gpus_held = dict(held.order_by().values_list("allocation__node_id").annotate(n=Count("gpu_id", distinct=True)))
    live = Allocation.objects.filter(node__in=ids, released_at=None).order_by().values_list("node_id")
    sums = live.annotate(cores=Sum(Length("core_ids")), memory=Sum("memory_mib"))
    parts = {node: (cores, memory_mib) for node, cores, memory_mib in sums}
    free = free_by_node(nodes)
    for node in nodes:
        cores, memory_mib = parts.get(node.pk, NOTHING)
        own = free.get(node.pk, Free())
        node.counts = SimpleNamespace(
            gpus=gpus[node.pk],
            gpus_by_type=types[node.pk],
            gpus_allocated=gpus_held.get(node.pk, 0),
            gpus_idle=own.idle,
            gpus_for_sharing=own.for_sharing,
            cores_allocated=cores,
            memory_allocated_mib=memory_mib,
        )
    return list(nodes)


def nodes_active(nodes: Sequence[Node], *, hours: int) -> list[Node]:
    """Add to each node that `nodes_counted` has seen `active`: its active rates over the last hours. Three queries."""
    gpus = {node.pk: node.counts.gpus for node in nodes}
    rates = active_rates(nodes, hours=hours, now=timezone.now(), gpus=gpus)
    for node in nodes:
        node.active = rates[node.pk]
    return list(nodes)


def nodes_with_use(nodes: Sequence[Node], *, user: User, tenant: Tenant | None) -> list[Node]:
    """Add to each node `used`: gpus {index: job id or None} and parts, foreign jobs as None; and `counts`."""
    nodes_counted(nodes)
    live = Allocation.objects.filter(node__in=nodes, released_at=None).select_related("attempt")
    parts = list(live.order_by("attempt_id"))
    jobs = Job.objects.visible_to(user).filter(pk__in={part.attempt.job_id for part in parts})
    visible = set((jobs.filter(tenant=tenant) if tenant else jobs).values_list("pk", flat=True))
    rows = GpuAllocation.objects.filter(allocation__in=[part.pk for part in parts], released_at=None)
    gpus_of: dict[int, list[int]] = defaultdict(list)
    shares: dict[int, tuple[float, int]] = {}
    names = ("allocation_id", "gpu__index", "mode", "compute", "memory_mib")
    for allocation_id, index, mode, compute, memory_mib in rows.order_by("gpu__index").values_list(*names):
        gpus_of[allocation_id].append(index)
        if mode == Gpu.Mode.SHARED:
            shares[allocation_id] = (compute / WHOLE, memory_mib)
    parts_of = defaultdict(list)
    for part in parts:
        parts_of[part.node_id].append(part)
    for node in nodes:
        node.used = _use(parts_of[node.pk], gpus_of=gpus_of, shares=shares, visible=visible)
    return list(nodes)


def _use(
    parts: Sequence[Allocation],
    *,
    gpus_of: dict[int, list[int]],
    shares: dict[int, tuple[float, int]],
    visible: set[int],
) -> dict[str, Any]:
    """Return a node's use. A shared GPU goes by the first job on it that may be seen; the parts name each."""

    def job(part: Allocation) -> int | None:
        return part.attempt.job_id if part.attempt.job_id in visible else None

    gpus: dict[int, int | None] = {}
    for part in parts:
        for index in gpus_of[part.pk]:
            gpus[index] = gpus.get(index) or job(part)
    return {
        "gpus": gpus,
        "parts": [
            {
                "job": job(part),
                "gpus": gpus_of[part.pk],
                "gpu_compute": shares.get(part.pk, (None, None))[0],
                "gpu_memory_mib": shares.get(part.pk, (None, None))[1],
                "cores": len(part.core_ids),
                "memory_mib": part.memory_mib,
                "state": part.state,
            }
            for part in parts
        ],
    }


Interval = tuple["datetime", "datetime | None"]
"""From when until when a GPU was held; None: it still is."""


def parts_live(*, node_ids: Sequence[int] | None = None) -> list[Allocation]:
    """Return the parts that are held now, with job, tenant, owner and `gpu_allocations` (GPU included). Two queries."""
    parts = Allocation.objects.filter(released_at=None)
    if node_ids is not None:
        parts = parts.filter(node_id__in=node_ids)
    held = GpuAllocation.objects.filter(released_at=None).select_related("gpu").order_by("gpu__index")
    return list(
        parts.select_related("attempt__job__tenant", "attempt__job__owner")
        .prefetch_related(Prefetch("gpu_allocations", held))
        .order_by("node_id", "attempt_id")
    )


def gpu_intervals(*, since: datetime, node_ids: Sequence[int] | None = None) -> dict[int, list[Interval]]:
    """Return when each GPU (by row id) was held at or after `since`, oldest first. One query."""
    rows = GpuAllocation.objects.filter(Q(released_at=None) | Q(released_at__gt=since))
    if node_ids is not None:
        rows = rows.filter(gpu__node_id__in=node_ids)
    found: dict[int, list[Interval]] = defaultdict(list)
    for gpu_id, created_at, released_at in rows.order_by("created_at").values_list(
        "gpu_id", "created_at", "released_at"
    ):
        found[gpu_id].append((created_at, released_at))
    return found


def active_share(intervals: Sequence[Interval], *, since: datetime, now: datetime) -> float | None:
    """Return the share 0..1 of [since, now] in which a GPU was held; None for an empty stretch."""
    whole = (now - since).total_seconds()
    if whole <= 0:
        return None
    spans = ((max(created_at, since), min(released_at or now, now)) for created_at, released_at in intervals)
    return min(1.0, union_s(span for span in spans if span[0] < span[1]) / whole)
