"""Active rates by GPU type: recorded with each planning, and their means by time over a round or several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.models import Count, Sum

from portal.cluster.models import Gpu, Node
from portal.work.jobs.held_time import Length
from portal.work.jobs.models import Allocation, GpuAllocation
from scheduler.metrics import means_over, rate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TYPES_MOST = 8
ByType = dict[str, dict[str, float | None]]


def types_now() -> ByType:
    """Return the shares of GPUs and of cores that jobs hold, by GPU type, of the types with most GPUs. Four queries.

    A node's cores count for the type that it goes by.
    """
    alive = Node.objects.alive().order_by()
    present = Gpu.objects.present().filter(node__in=alive).with_type().exclude(type_name=None).order_by()
    totals = dict(present.values_list("type_name").annotate(n=Count("pk")))
    holding = GpuAllocation.objects.filter(released_at=None).values("gpu")
    held = dict(present.filter(pk__in=holding).values_list("type_name").annotate(n=Count("pk")))
    cores = dict(alive.values_list("gpu_type__name").annotate(n=Sum("cores")))
    parts = Allocation.objects.filter(released_at=None, node__in=alive).order_by()
    taken = dict(parts.values_list("node__gpu_type__name").annotate(n=Sum(Length("core_ids"))))
    return {
        name: {"gpus": rate(held.get(name, 0), totals[name]), "cores": rate(taken.get(name, 0), cores.get(name, 0))}
        for name in sorted(totals, key=lambda name: (-totals[name], name))[:TYPES_MOST]
    }


def types_mean(rows: Sequence[tuple[float, Mapping[str, Any]]], until_s: float, *, hold_s: float) -> ByType:
    """Return the means by time of the records of these times (Unix seconds), each of which holds until the next."""
    names = dict.fromkeys(name for _, metrics in rows for name in metrics.get("types") or {})
    found: ByType = {}
    for name in names:
        own = [(at_s, (metrics.get("types") or {}).get(name) or {}) for at_s, metrics in rows]
        found[name] = means_over(own, until_s, ("gpus", "cores"), hold_s=hold_s)
    return found
