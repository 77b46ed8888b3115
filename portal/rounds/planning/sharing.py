"""What a planning is told of shared GPUs beside their nodes: which there are, and what jobs used that it may put there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db.models import Max

from portal.cluster.models import Gpu

if TYPE_CHECKING:
    from scheduler.parameters import Parameters


def shared_memory(parameters: Parameters) -> dict[str, int]:
    """Return by GPU type the memory (MiB) of the largest GPU that jobs may share; {} while sharing is off. One query."""
    if parameters.sharing_policy == "off":
        return {}
    shared = Gpu.objects.present().filter(mode=Gpu.Mode.SHARED, node__dead_at=None).with_type().order_by()
    rows = shared.exclude(type_name=None).values_list("type_name").annotate(most=Max("memory_mib"))
    return dict(rows)
