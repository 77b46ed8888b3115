"""Utilisation now (CODA eq. 1): the mean over the GPUs and over the cores that are held, from each node's last sample."""

from __future__ import annotations

from django.utils import timezone

from portal.cluster.models import SAMPLE_FRESH_S, Node
from portal.work.jobs.models import Allocation, GpuAllocation


def utilisations_now() -> dict[str, float | None]:
    """Return `utilisation` of the GPUs and `cpu_utilisation` of the cores that are held and measured, in per cent.

    A job that is given cores counts as using no more than those. None when there is nothing held that is measured.
    """
    now = timezone.now().timestamp()
    live = {
        node.pk: node.live
        for node in Node.objects.only("live")
        if node.live and now - node.live.get("at", 0) < SAMPLE_FRESH_S
    }
    # Each GPU once, however many jobs share it.
    held = (
        GpuAllocation.objects.filter(released_at=None).order_by().values_list("gpu__node_id", "gpu__index").distinct()
    )
    uses = [live.get(node, {}).get("gpus", {}).get(str(index), {}).get("utilisation") for node, index in held]
    measured = [use for use in uses if use is not None]
    cores, used = 0, 0.0
    parts = Allocation.objects.filter(released_at=None).values_list("node_id", "attempt__key", "core_ids")
    for node, key, core_ids in parts:
        own = live.get(node, {}).get("attempts", {}).get(key, {}).get("cpu_cores")
        if own is not None:
            cores, used = cores + len(core_ids), used + min(own, len(core_ids))
    return {
        "utilisation": sum(measured) / len(measured) if measured else None,
        "cpu_utilisation": 100 * used / cores if cores else None,
    }
