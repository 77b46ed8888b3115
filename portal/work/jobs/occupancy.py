"""Read the parts that the whole cluster holds, of all tenants. Pages must mask them for their reader.

Each function costs a fixed number of queries, whatever the number of nodes and jobs.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from django.db.models import Prefetch, Q

from portal.work.jobs.held_time import union_s
from portal.work.jobs.models import Allocation, GpuAllocation

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

Interval = tuple["datetime", "datetime | None"]
"""From when until when a GPU was held; None: it still is."""


def parts_live(*, node_ids: Sequence[int] | None = None) -> list[Allocation]:
    """Return the parts that are held now, with job, tenant and `gpu_allocations` (GPU included). Two queries."""
    parts = Allocation.objects.filter(released_at=None)
    if node_ids is not None:
        parts = parts.filter(node_id__in=node_ids)
    held = GpuAllocation.objects.filter(released_at=None).select_related("gpu").order_by("gpu__index")
    return list(
        parts.select_related("attempt__job__tenant")
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
