"""Read what the whole cluster holds and waits for, whoever's it is: pages must mask it for their reader.

Each function costs a fixed number of queries, whatever the number of nodes and jobs.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.db.models import F, Prefetch, Q

from portal.jobs.models import Allocation, GpuAllocation, Job
from portal.jobs.states import QUEUED, JobState

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

Interval = tuple["datetime", "datetime | None"]
"""From when until when a GPU was held; None: it still is."""

QUEUE_LIMIT = 20_000
"""So many waiting jobs are read for the overview's figures, the longest waiting first."""


def parts_live(*, node_id: int | None = None) -> list[Allocation]:
    """Return what is held now, a part a node, with job, tenant and `gpu_allocations` (GPU included). Two queries."""
    parts = Allocation.objects.filter(released_at=None)
    if node_id is not None:
        parts = parts.filter(node_id=node_id)
    held = GpuAllocation.objects.filter(released_at=None).select_related("gpu").order_by("gpu__index")
    return list(
        parts.select_related("attempt__job__tenant")
        .prefetch_related(Prefetch("gpu_allocations", held))
        .order_by("node_id", "attempt_id")
    )


def gpu_intervals(*, since: datetime, node_id: int | None = None) -> dict[int, list[Interval]]:
    """Return when each GPU (by row id) was held at or after `since`, oldest first. One query."""
    rows = GpuAllocation.objects.filter(Q(released_at=None) | Q(released_at__gt=since))
    if node_id is not None:
        rows = rows.filter(gpu__node_id=node_id)
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
    held = sum(
        max(0.0, (min(released_at or now, now) - max(created_at, since)).total_seconds())
        for created_at, released_at in intervals
    )
    return min(1.0, held / whole)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A job in the queue. `counts`: it is eligible, its waiting counts (not held, no dependency, within quota)."""

    id: int
    name: str
    tenant_id: int
    tenant: str
    state: str
    gpus: list[int]
    reason: str
    waited_before_s: float
    waiting_since: datetime | None
    age_s: float | None
    array_id: int | None
    array_index: int | None

    @property
    def counts(self) -> bool:
        return self.state == JobState.PENDING and self.waiting_since is not None

    def waited_s(self, now: datetime) -> float:
        """Return the eligible waiting so far, in s."""
        stretch = (now - self.waiting_since).total_seconds() if self.waiting_since else 0.0
        return self.waited_before_s + max(0.0, stretch)

    def latency_ratio(self, now: datetime) -> float | None:
        """Return waiting over expected run time (algorithms, section 3); None before the first planning."""
        return self.waited_s(now) / self.age_s if self.age_s else None


def jobs_waiting() -> list[Waiting]:
    """Return the waiting and held jobs without arrays' parents, the longest waiting first. One query."""
    rows = (
        Job.objects.runnable()
        .filter(state__in=QUEUED, cancel_requested_at=None)
        .order_by(F("waiting_since").asc(nulls_last=True), "pk")
        .values_list(
            "pk", "name", "tenant_id", "tenant__name", "state", "gpus", "reason", "waited_s", "waiting_since",
            "age_s", "array_id", "array_index",
        )[:QUEUE_LIMIT]
    )  # fmt: skip
    return [Waiting(*row) for row in rows]
