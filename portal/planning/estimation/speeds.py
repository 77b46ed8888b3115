"""Entity speed: a factor of the node, independent of the job (algorithms.md section 6), made every few minutes.

factor = median over signatures of (mean over sizes of per-GPU throughput here / on the node's type), in 5 % steps. A
tenant could write any records and have a node to itself that looks slow: so the tenants vote, each with the median of
its signatures, one vote's worth of which counts for nothing among several tenants (of two in the middle that nearer to 1).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, median

from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from portal.cluster.models import Node
from portal.planning.estimation.models import NodeSpeed, Signature, ThroughputCell
from scheduler.estimator.links import towards

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
    owners = dict(Signature.objects.values_list("pk", "tenant_id"))
    alone = len(set(owners.values())) == 1
    now = timezone.now()
    rows = [
        NodeSpeed(
            node_id=node,
            factor=speed_factor(_votes(signatures, owners, alone=alone)),
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


def _votes(signatures: Mapping[int, Sequence[float]], owners: Mapping[int, int], *, alone: bool) -> list[float]:
    """Return one ratio a tenant, and 1 for nobody's doubt where there are several; those of all signatures where there is one."""
    means = {signature: fmean(ratios) for signature, ratios in signatures.items()}
    if alone:
        return list(means.values())
    by_tenant: dict[int, list[float]] = defaultdict(list)
    for signature, mean in means.items():
        by_tenant[owners[signature]].append(mean)
    return [towards(1.0, [1.0, *(median(own) for own in by_tenant.values())])]


def _ratios() -> Iterable[tuple[int, int, float]]:
    """Yield (node, signature, entity / type) of every cell of a node that has one of its type beside it."""
    cells = ThroughputCell.objects.filter(count__gte=MEASUREMENTS_LEAST)
    fields = ("signature_id", "gpus", "nodes", "mean")
    of_types = {
        (gpu_type, signature, gpus, nodes): mean
        for gpu_type, signature, gpus, nodes, mean in cells.filter(node=None).values_list("gpu_type_id", *fields)
    }
    types = dict(Node.objects.filter(~Q(gpu_type=None)).values_list("pk", F("gpu_type_id")))
    for node, signature, gpus, nodes, mean in cells.filter(gpu_type=None, bay=0).values_list("node_id", *fields):
        whole = of_types.get((types.get(node), signature, gpus, nodes))
        if whole:
            yield node, signature, mean / whole
