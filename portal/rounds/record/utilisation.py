"""GPU utilisation now: the mean over the GPUs that are held, from each node's last telemetry sample."""

from __future__ import annotations

from django.utils import timezone

from portal.cluster.models import Node
from portal.jobs.models import GpuAllocation

FRESH_S = 30
"""A sample older than this says nothing about now."""


def utilisation_now() -> float | None:
    """Return the mean utilisation in per cent of the GPUs held and measured; None when there is none."""
    now = timezone.now().timestamp()
    live = {
        node.pk: node.live["gpus"]
        for node in Node.objects.only("live")
        if node.live and now - node.live.get("at", 0) < FRESH_S
    }
    held = GpuAllocation.objects.filter(released_at=None).values_list("gpu__node_id", "gpu__index")
    values = [live.get(node_id, {}).get(str(index), {}).get("utilisation") for node_id, index in held]
    measured = [value for value in values if value is not None]
    return sum(measured) / len(measured) if measured else None
