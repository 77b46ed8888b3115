"""Entity speed: a factor of the node, independent of the job (algorithms.md section 6), made every few minutes.

factor = median over signatures of (mean over sizes of per-GPU throughput here / on the node's type), in 5 % steps.
"""

from __future__ import annotations

from collections import defaultdict
from statistics import fmean, median
from typing import TYPE_CHECKING

from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from portal.cluster.models import Node
from portal.estimation.models import NodeSpeed, ThroughputCell

if TYPE_CHECKING:
    from collections.abc import Iterable

STEP = 0.05
MEASUREMENTS_LEAST = 3
"""In a cell, before its mean says something."""
SIGNATURES_LEAST = 3
"""One job that was slow on a node for a reason of its own says nothing about the node."""


def speed_factor(ratios: Iterable[float]) -> float:
    """Return the median of entity over type, to the nearest 5 %, at least one step."""
    return max(STEP, round(round(median(ratios) / STEP) * STEP, 2))


def speeds_refresh() -> int:
    """Measure every node anew; return how many have a factor."""
    by_node: dict[int, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for node, signature, ratio in _ratios():
        by_node[node][signature].append(ratio)
    now = timezone.now()
    rows = [
        NodeSpeed(
            node_id=node,
            factor=speed_factor(fmean(ratios) for ratios in signatures.values()),
            signatures=len(signatures),
            measured_at=now,
        )
        for node, signatures in sorted(by_node.items())
        if len(signatures) >= SIGNATURES_LEAST
    ]
    with transaction.atomic():
        NodeSpeed.objects.exclude(node_id__in=[row.node_id for row in rows]).delete()
        NodeSpeed.objects.bulk_create(
            rows,
            update_conflicts=True,
            unique_fields=["node"],
            update_fields=["factor", "signatures", "measured_at"],
        )
    return len(rows)


def _ratios() -> Iterable[tuple[int, int, float]]:
    """Yield (node, signature, entity / type) of every cell of a node that has one of its type beside it."""
    cells = ThroughputCell.objects.filter(count__gte=MEASUREMENTS_LEAST)
    fields = ("signature_id", "gpus", "nodes", "mean")
    of_types = {
        (gpu_type, signature, gpus, nodes): mean
        for gpu_type, signature, gpus, nodes, mean in cells.filter(node=None).values_list("gpu_type_id", *fields)
    }
    types = dict(Node.objects.filter(~Q(gpu_type=None)).values_list("pk", F("gpu_type_id")))
    for node, signature, gpus, nodes, mean in cells.filter(gpu_type=None).values_list("node_id", *fields):
        whole = of_types.get((types.get(node), signature, gpus, nodes))
        if whole:
            yield node, signature, mean / whole
