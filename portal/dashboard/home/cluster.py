"""The cluster small: whose each GPU is, in four classes, and the figures that a tenant can act on."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from django.db.models import Case, CharField, Count, F, Q, Value, When
from django.urls import reverse

from portal.cluster.models import Gpu, Node
from portal.dashboard.overview.queue import idle_for_sharing, largest_block
from portal.dashboard.parts.formatting import count_of, number
from portal.jobs.models import GpuAllocation
from portal.jobs.queue_counts import ELIGIBLE, waiting_jobs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from portal.dashboard.home.context import HomeCluster, HomeNode
    from portal.dashboard.home.scope import Scope
    from portal.dashboard.parts.snapshot import Snapshot

CELLS_UP_TO = 24
"""Up to so many nodes a cell each GPU; above, a bar each GPU type."""
CLASSES = ("mine", "ours", "others", "idle")


def cluster_make(scope: Scope, snapshot: Snapshot) -> HomeCluster:
    """Return the card. Its figures are those that the whole cluster's overview shows."""
    few = len(snapshot.facts.names) <= CELLS_UP_TO
    nodes = _by_node(scope) if few else _by_type(scope)
    held, total = snapshot.gpus_held, snapshot.gpus_total
    return {
        "summary": f"{number(held)} of {count_of(total, 'GPU')} in use",
        "nodes": nodes,
        "legend": _legend(scope, nodes),
        "figures": _figures(scope, snapshot),
    }


def _whose(scope: Scope) -> Case:
    """Say of a held GPU whose it is."""
    own = [tenant.pk for tenant in scope.tenants]
    return Case(
        When(allocation__attempt__job__owner=scope.user, then=Value("mine")),
        When(allocation__attempt__job__tenant__in=own, then=Value("ours")),
        default=Value("others"),
        output_field=CharField(),
    )


def _by_node(scope: Scope) -> list[HomeNode]:
    """A cell a GPU. Two queries."""
    held = GpuAllocation.objects.filter(released_at=None).annotate(whose=_whose(scope))
    whose: dict[int, str] = {}
    for gpu, each in held.values_list("gpu_id", "whose"):
        whose[gpu] = min(each, whose.get(gpu, "others"), key=CLASSES.index)
    gpus: dict[tuple[str, str], list[str]] = defaultdict(list)
    rows = Gpu.objects.filter(node__in=Node.objects.alive(), missing_since=None).order_by("node__name", "index")
    for pk, node, kind in rows.values_list("pk", "node__name", "node__gpu_type__name"):
        gpus[node, kind or ""].append(whose.get(pk, "idle"))
    return [_node(name, f"{len(cells)} \u00d7 {kind}" if kind else "", cells) for (name, kind), cells in gpus.items()]


def _node(name: str, note: str, cells: list[str]) -> HomeNode:
    counts = Counter(cells)
    return {
        "name": name,
        "url": reverse("node-detail", args=[name]),
        "note": note,
        "cells": cells,
        "parts": [],
        "total": len(cells),
        "words": _words(counts),
    }


def _by_type(scope: Scope) -> list[HomeNode]:
    """A bar a GPU type. Two queries, both aggregates."""
    held = GpuAllocation.objects.filter(released_at=None).annotate(
        whose=_whose(scope), kind=F("gpu__node__gpu_type__name")
    )
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for kind, whose, count in held.values_list("kind", "whose").annotate(n=Count("gpu_id", distinct=True)).order_by():
        counts[kind or ""][whose] += count
    totals = (
        Node.objects.alive()
        .values_list("gpu_type__name")
        .annotate(n=Count("gpus", filter=Q(gpus__missing_since=None)))
        .order_by("gpu_type__name")
    )
    found: list[HomeNode] = []
    for kind, total in totals:
        if not kind or not total:
            continue
        parts = counts[kind]
        parts["idle"] = max(0, total - parts.total())
        shown = [(name, float(parts[name])) for name in CLASSES if name != "idle"]
        found.append(
            {
                "name": kind,
                "url": reverse("cluster"),
                "note": count_of(total, "GPU"),
                "cells": [],
                "parts": shown,
                "total": total,
                "words": _words(parts),
            }
        )
    return found


def _words(counts: Counter[str]) -> str:
    named = {"mine": "yours", "ours": "your tenant's", "others": "other tenants'", "idle": "idle"}
    return ", ".join(f"{counts[name]} {named[name]}" for name in CLASSES if counts[name])


def _legend(scope: Scope, nodes: Iterable[HomeNode]) -> list[tuple[str, str]]:
    sums: Counter[str] = Counter()
    for node in nodes:
        sums.update(Counter(node["cells"]))
        sums.update({name: int(count) for name, count in node["parts"]})
        if node["parts"]:
            sums["idle"] += node["total"] - int(sum(count for _, count in node["parts"]))
    ours = scope.tenants[0].name if len(scope.tenants) == 1 else "your tenants"
    labels = {"mine": "yours", "ours": ours, "others": "other tenants", "idle": "idle"}
    return [(name, f"{labels[name]} {number(sums[name])}") for name in CLASSES]


def _figures(scope: Scope, snapshot: Snapshot) -> list[tuple[str, str]]:
    waits = sum(group.jobs for group in snapshot.queue.eligible)
    mine = waiting_jobs().filter(ELIGIBLE, owner=scope.user).aggregate(jobs=Count("pk"), tasks=Count("array"))
    # The list of my jobs counts an array once; here its tasks count that are made and not set aside.
    tasks = ", counting each task that an array may start now" if mine["tasks"] else ""
    block, apart = largest_block(snapshot), idle_for_sharing(snapshot)
    more = f"; {number(apart)} more idle, for jobs that share a GPU" if apart else ""
    return [
        (
            f"{count_of(waits, 'job')} wait{'s' if waits == 1 else ''}",
            f"{number(mine['jobs'])} of them yours{tasks}",
        ),
        (
            count_of(block, "GPU"),
            f"idle on one node at most: the largest job that could start{more}",
        ),
    ]
