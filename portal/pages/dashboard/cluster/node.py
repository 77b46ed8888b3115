"""A node's page: its free and held GPUs, its limits, the machine, and its past."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from django.urls import reverse

from portal.cluster.models import Gpu
from portal.cluster.selectors import node_events
from portal.engines.selectors import order_of
from portal.foundation.errors import NotFound
from portal.pages.dashboard.cluster.hardware import finding_rows, gpu_table, job_words, out_words
from portal.pages.dashboard.cluster.limits import limits_context
from portal.pages.dashboard.cluster.machine import machine_facts
from portal.pages.dashboard.cluster.page import EVENTS_SHOWN, event_rows
from portal.pages.dashboard.cluster.plots import figure_make, plot_contexts, range_choices, range_seconds
from portal.pages.dashboard.cluster.rows import Free, hardware_words, node_row
from portal.pages.dashboard.parts.formatting import GIB_MIB, count_of, number
from portal.pages.dashboard.parts.gpus import gpu_groups
from portal.pages.dashboard.parts.neighbours import kept_rows, on_node, slowed_rows
from portal.work.jobs.models import Allocation
from portal.work.jobs.selectors import ANOTHERS

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from portal.cluster.models import Node
    from portal.pages.dashboard.parts.context import Segment
    from portal.pages.dashboard.parts.lines import Drawing
    from portal.pages.dashboard.parts.snapshot import Snapshot
    from portal.work.jobs.models import Job

STARTS_READ = 50
HAPPENED = 8
NAMED = 3
"""Jobs without a GPU that are named one by one."""


def node_get(snapshot: Snapshot, name: str) -> Node:
    """Return a node with its GPUs. Raises NotFound."""
    found = next((node for node in snapshot.nodes if node.name == name), None)
    if found is None:
        raise NotFound("node")
    return found


def node_context(snapshot: Snapshot, name: str, *, chosen: str | None = None) -> dict[str, Any]:
    node = node_get(snapshot, name)
    range_seconds(chosen)
    plots = plot_contexts(node, chosen)
    return {
        **now_context(snapshot, node),
        **gpus_context(snapshot, node),
        **happened_context(snapshot, node),
        "head": f"{hardware_words(node)}; {count_of(node.cores, 'core')}, {number(node.memory_mib / GIB_MIB)} GB"
        if node.gpus_present
        else f"{count_of(node.cores, 'core')}, {number(node.memory_mib / GIB_MIB)} GB, no GPU",
        "facts": machine_facts(node, snapshot),
        "limits": limits_context(node),
        "busy": plots[:1],
        "plots": plots[1:],
        "ranges": range_choices(node, chosen),
        "problems": node.problems if snapshot.user.is_operator else [],
        "slowed": _slowed(node, snapshot),
    }


def fragment_context(snapshot: Snapshot, name: str, fragment: str) -> dict[str, Any]:
    """Return one part's context. Raises NotFound for an unknown node or part."""
    if fragment not in FRAGMENTS:
        raise NotFound("fragment")
    return FRAGMENTS[fragment](snapshot, node_get(snapshot, name))


# ---- what is free ----------------------------------------------------------------------------------------------------


def now_context(snapshot: Snapshot, node: Node) -> dict[str, Any]:
    free = Free(node, snapshot)
    return {
        "node": node_row(node, snapshot),
        "lead": free.lead(),
        "next": _next_free(node, snapshot) if node.gpus_present and not free.gpus and node.health == "up" else None,
        "apart": "" if node.left_at else _apart(node, free),
        "allocation": _allocation(node),
        "kept": kept_rows(snapshot.kept_by_node[node.name]),
        "findings": finding_rows(node, snapshot),
        "can_operate": snapshot.user.is_operator,
    }


def _next_free(node: Node, snapshot: Snapshot) -> dict[str, Any] | None:
    """Return how many GPUs come free next, and when; None where no end is known."""
    ends: dict[datetime, int] = {}
    for part in snapshot.parts_by_node[node.pk]:
        end = snapshot.ends.get(part.attempt.job.array_id or part.attempt.job_id)
        whole = sum(held.mode != Gpu.Mode.SHARED for held in part.gpu_allocations.all())
        if end is not None and whole:
            ends[end] = ends.get(end, 0) + whole
    if not ends:
        return None
    first = min(ends)
    return {"count": ends[first], "at": first.isoformat()}


def _apart(node: Node, free: Free) -> str:
    """Say which GPUs no job gets whole: those that are out, and those for sharing."""
    out = [gpu.index for gpu in node.gpus_present if out_words(gpu)]
    said = [f"GPU {_and(out)} {'is' if len(out) == 1 else 'are'} out."] if out else []
    shared = [gpu.index for gpu in free.shared]
    if shared:
        said.append(f"GPU {_and(shared)} {'is' if len(shared) == 1 else 'are'} for small jobs that share a GPU.")
    return " ".join(said)


def _allocation(node: Node) -> dict[str, Any] | None:
    """Return the order of another scheduler that holds the node, or held it last. One query."""
    order = order_of(node.pk)
    if order is None or (order.ended_at and not (node.is_allocation or node.left_at)):
        return None
    first = re.fullmatch(rf"{re.escape(order.host)}-(g\d+)(\.\d+)?", node.name)
    return {
        "job": f"{order.engine.scheduler} job {order.ticket}" if order.ticket else f"a job of {order.engine.scheduler}",
        "host": order.host,
        "until": order.ends_at.isoformat() if order.ends_at else None,
        "gave_back_at": node.left_at.isoformat() if node.left_at else None,
        "engine": order.engine,
        "scheduler": order.engine.scheduler,
        "first": first[1] if first else None,
    }


def _and(numbers: list[int]) -> str:
    words = [str(each) for each in numbers]
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


# ---- jobs ------------------------------------------------------------------------------------------------------------


def gpus_context(snapshot: Snapshot, node: Node) -> dict[str, Any]:
    parts = [part for part in snapshot.parts_by_node[node.pk] if not part.gpu_allocations.all()]
    cells = [cell for group in gpu_groups(node, snapshot)["groups"] for cell in group["cells"]]
    kept = frozenset(cell["index"] for cell in cells if cell["look"] == "kept")
    return {
        "table": gpu_table(node, snapshot, kept) if node.gpus_present else None,
        "without": _without(parts, node, snapshot),
        "node_name": node.name,
        "can_operate": snapshot.user.is_operator,
    }


def _without(parts: list[Allocation], node: Node, snapshot: Snapshot) -> list[Segment]:
    """Say which jobs run here without a GPU, and how many cores they hold; the reader's own are named."""
    if not parts:
        return []
    cores = sum(len(part.core_ids) for part in parts)
    held = f" without a GPU hold{'s' if len(parts) == 1 else ''} {number(cores)} of {count_of(node.cores, 'core')}"
    words: list[Segment] = [{"text": count_of(len(parts), "job") + held}]
    own = [part.attempt.job for part in parts if snapshot.reader.sees(part.attempt.job.tenant_id)]
    for at, job in enumerate(own[:NAMED]):
        words += [{"text": ", " if at else ": "}, *job_words(job, snapshot.reader)]
    rest = len(parts) - min(len(own), NAMED)
    more = f" and {number(rest)} more" if own and rest else ""
    return [*words, {"text": f"{more}."}]


def _slowed(node: Node, snapshot: Snapshot) -> list[dict[str, Any]]:
    def called(job: Job) -> str:
        return f"#{job.number}" if snapshot.reader.sees(job.tenant_id) else ANOTHERS

    def link(job: Job) -> str | None:
        return reverse("job-detail", args=[job.number]) if snapshot.reader.sees(job.tenant_id) else None

    return slowed_rows(on_node(node), called, link)


# ---- what happened ---------------------------------------------------------------------------------------------------


def happened_context(snapshot: Snapshot, node: Node) -> dict[str, Any]:
    """Return the last events of the node and starts of jobs that the reader may see. Two queries."""
    reader = snapshot.reader
    events = event_rows(node_events(limit=EVENTS_SHOWN, node=node), snapshot.user)
    rows = Allocation.objects.filter(node=node).select_related("attempt__job").order_by("-pk")[:STARTS_READ]
    starts = [
        {
            "at": part.attempt.started_at.isoformat(),
            "rich": [*job_words(part.attempt.job, reader), {"text": " started."}],
        }
        for part in rows
        if part.attempt.started_at and reader.sees(part.attempt.job.tenant_id)
    ]
    return {"events": sorted([*events, *starts], key=lambda row: row["at"], reverse=True)[:HAPPENED]}


FRAGMENTS: dict[str, Callable[[Snapshot, Node], dict[str, Any]]] = {
    "now": now_context,
    "gpus": gpus_context,
    "happened": happened_context,
    "card": lambda snapshot, node: {**now_context(snapshot, node), "rack": node.rack},
}


def node_figure(snapshot: Snapshot, name: str, figure: str, *, chosen: str | None = None) -> Drawing:
    """Return one measure of a node over a range of time. Raises NotFound for an unknown node or figure."""
    return figure_make(node_get(snapshot, name), figure, seconds=range_seconds(chosen))
