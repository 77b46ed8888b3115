"""The cluster small: whose each GPU is, in six classes."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from django.db.models import Case, CharField, Count, F, Value, When
from django.urls import reverse

from portal.cluster.gpu_states import GpuState
from portal.pages.dashboard.parts.formatting import count_of, number
from portal.work.jobs.models import GpuAllocation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from portal.pages.dashboard.board.facts import Facts
    from portal.pages.dashboard.home.scope import Scope
    from portal.pages.dashboard.parts.snapshot import Snapshot

CELLS_UP_TO = 24
"""Up to this number of nodes each GPU has a cell; above, each GPU type has a bar."""
CLASSES = ("mine", "ours", "others", "sharing", "out", "idle")
WORDS = dict(zip(CLASSES, ("yours", "your tenant's", "other tenants'", "for sharing", "out", "free"), strict=True))
FREE = {GpuState.FOR_SHARING: "sharing", GpuState.OUT: "out"}
"""Classes of GPUs that nobody holds; the others are idle."""


def cluster_make(scope: Scope, snapshot: Snapshot) -> dict[str, Any]:
    """Return the folded row: how many GPUs are in use and free in its line, whose each one is below."""
    few = len(snapshot.facts.names) <= CELLS_UP_TO
    nodes = (_by_node if few else _by_type)(scope, snapshot.facts)
    held, total = snapshot.gpus_held, snapshot.gpus_total
    most = max((each.most for own in snapshot.facts.blocks for each in own), default=0)
    return {
        "summary": f"{number(held)} of {count_of(total, 'GPU')} in use, at most {number(most)} free on one node",
        "nodes": nodes,
        "legend": _legend(scope, nodes),
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


def _by_node(scope: Scope, facts: Facts) -> list[dict[str, Any]]:
    """A cell a GPU. One query."""
    held = GpuAllocation.objects.filter(released_at=None).annotate(whose=_whose(scope))
    whose: dict[int, str] = {}
    for gpu, each in held.values_list("gpu_id", "whose"):
        whose[gpu] = min(each, whose.get(gpu, "others"), key=CLASSES.index)
    found = []
    for place in facts.alive:
        first, kind = facts.starts[place], facts.own_types[place]
        free = [FREE.get(state, "idle") for state in facts.states(place)]
        cells = [whose.get(gpu, state) for gpu, state in zip(facts.gpu_ids[first:], free, strict=False)]
        if cells:
            found.append(_node(facts.names[place], f"{len(cells)} \u00d7 {kind}" if kind else "", cells))
    return found


def _node(name: str, note: str, cells: list[str]) -> dict[str, Any]:
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


def _by_type(scope: Scope, facts: Facts) -> list[dict[str, Any]]:
    """A bar a GPU type. One query, an aggregate."""
    held = GpuAllocation.objects.filter(released_at=None).annotate(
        whose=_whose(scope), kind=F("gpu__node__gpu_type__name")
    )
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for kind, whose, count in held.values_list("kind", "whose").annotate(n=Count("gpu_id", distinct=True)).order_by():
        counts[kind or ""][whose] += count
    totals = Counter[str]()
    for place in facts.alive:
        name, first = facts.own_types[place] or "", facts.starts[place]
        totals[name] += facts.gpus[place]
        taken = facts.held[first : first + facts.gpus[place]]
        free = (
            FREE[state]
            for state, is_held in zip(facts.states(place), taken, strict=True)
            if state in FREE and not is_held
        )
        counts[name].update(free)
    return [_bar(kind, total, counts[kind]) for kind, total in sorted(totals.items()) if kind and total]


def _bar(kind: str, total: int, parts: Counter[str]) -> dict[str, Any]:
    parts["idle"] = max(0, total - parts.total())
    return {
        "name": kind,
        "url": reverse("cluster"),
        "note": count_of(total, "GPU"),
        "cells": [],
        "parts": [(name, float(parts[name])) for name in CLASSES if name != "idle"],
        "total": total,
        "words": _words(parts),
    }


def _words(counts: Counter[str]) -> str:
    return ", ".join(f"{counts[name]} {WORDS[name]}" for name in CLASSES if counts[name])


def _legend(scope: Scope, nodes: Iterable[dict[str, Any]]) -> list[tuple[str, str]]:
    sums: Counter[str] = Counter()
    for node in nodes:
        sums.update(Counter(node["cells"]))
        sums.update({name: int(count) for name, count in node["parts"]})
        if node["parts"]:
            sums["idle"] += node["total"] - int(sum(count for _, count in node["parts"]))
    ours = scope.tenants[0].name if len(scope.tenants) == 1 else "your tenants"
    labels = WORDS | {"ours": ours, "others": "other tenants"}
    return [
        (name, f"{labels[name]} {number(sums[name])}") for name in CLASSES if sums[name] or name not in FREE.values()
    ]
