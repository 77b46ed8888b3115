"""Idle blocks against queued demand: how many jobs of each size would fit each node now, and how many wait."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from portal.dashboard.templatetags.berth import DASH

if TYPE_CHECKING:
    from portal.cluster.models import Node
    from portal.dashboard.cluster_context import BlockCell, BlockRow, BlocksContext
    from portal.dashboard.context import Rich
    from portal.dashboard.snapshot import Snapshot

STEPS = 4
"""Steps of either ramp: one a job to spare or short, the last for so many and more."""


def blocks_context(snapshot: Snapshot) -> BlocksContext | None:
    """Return the table; None without a GPU in the cluster."""
    nodes = [node for node in snapshot.nodes if node.gpus_present and not node.dead_at]
    if not nodes:
        return None
    idle = {node.pk: idle_of(node, snapshot) for node in nodes}
    demand, at_quota = _demand(snapshot)
    sizes = block_sizes(max(len(node.gpus_present) for node in nodes), max([1, *demand, *at_quota]))
    placeable = {size: _placeable(size, nodes, idle) for size in sizes}
    rows = [_node_row(node, sizes, idle[node.pk]) for node in nodes]
    rows.append(_total_row(idle, placeable, nodes))
    rows.append(_waiting_row(sizes, placeable, _bucketed(demand, sizes), _bucketed(at_quota, sizes)))
    return {
        "sentence": _sentence(idle, nodes, demand),
        "sizes": sizes,
        "rows": rows,
        "number": snapshot.last_plannings[0].number if snapshot.last_plannings else None,
    }


def idle_of(node: Node, snapshot: Snapshot) -> tuple[int, int]:
    """Return idle GPUs and cores; none on a node that takes no jobs."""
    if not node.is_schedulable:
        return 0, 0
    parts = snapshot.parts_by_node[node.pk]
    gpus = len(node.gpus_present) - sum(len(part.gpu_allocations.all()) for part in parts)
    return gpus, node.cores - sum(len(part.core_ids) for part in parts)


def block_sizes(largest_node: int, largest_need: int) -> list[int]:
    """Return 1, 2, 4 ... up to the largest node or need, whichever is larger."""
    sizes = [1]
    while sizes[-1] < max(largest_node, largest_need):
        sizes.append(2 * sizes[-1])
    return sizes


def blocks_in(size: int, gpus: int, cores: int) -> int:
    """Return how many jobs of `size` GPUs fit, a core a GPU at least."""
    return min(gpus // size, cores // size)


def _placeable(size: int, nodes: list[Node], idle: dict[int, tuple[int, int]]) -> int:
    """Return the jobs of a size that fit now: on a node, or spread over nodes of one type when no node is so large."""
    if any(len(node.gpus_present) >= size for node in nodes):
        return sum(blocks_in(size, *idle[node.pk]) for node in nodes)
    by_type: dict[int | None, int] = defaultdict(int)
    for node in nodes:
        by_type[node.gpu_type_id] += min(idle[node.pk])
    return sum(count // size for count in by_type.values())


def _demand(snapshot: Snapshot) -> tuple[Counter[int], Counter[int]]:
    """Return waiting GPU jobs by smallest size: eligible ones, and those that wait for their tenant's quota."""
    queue = snapshot.queue
    at_quota = [group for group in queue.groups if not group.counts and group.reason == "tenant-quota"]
    return queue.by_size(queue.eligible), queue.by_size(at_quota)


def _bucketed(counts: Counter[int], sizes: list[int]) -> Counter[int]:
    """Count a job of 3 GPUs under the block of 4 that holds it."""
    found: Counter[int] = Counter()
    for need, count in counts.items():
        found[next(size for size in sizes if size >= need)] += count
    return found


def _node_row(node: Node, sizes: list[int], idle: tuple[int, int]) -> BlockRow:
    note = f"{idle[0]}, {idle[1]}" if node.is_schedulable else node.health
    return {
        "name": node.name,
        "note": note,
        "cells": [_cell(size, idle, len(node.gpus_present)) for size in sizes],
        "total": False,
    }


def _cell(size: int, idle: tuple[int, int], gpu_count: int) -> BlockCell:
    gpus, cores = idle
    count = blocks_in(size, gpus, cores)
    if count:
        return {"text": str(count), "fill": ramp_of(count)}
    if size > gpu_count:
        return {"text": DASH, "fill": "none"}
    if gpus == 0:
        return {"text": "full", "fill": "none"}
    if gpus >= size:
        return {"text": "no cores", "fill": "short-1"}
    return {"text": f"{size - gpus} short", "fill": "none"}


def ramp_of(count: int) -> str:
    return f"ramp-{min(count, STEPS - 1) + 1}" if count else "none"


def _total_row(idle: dict[int, tuple[int, int]], placeable: dict[int, int], nodes: list[Node]) -> BlockRow:
    gpus, cores = (sum(idle[node.pk][place] for node in nodes) for place in (0, 1))
    cells: list[BlockCell] = [{"text": str(count), "fill": ramp_of(count)} for count in placeable.values()]
    return {"name": "Placeable now", "note": f"{gpus}, {cores}", "cells": cells, "total": True}


def _waiting_row(sizes: list[int], placeable: dict[int, int], demand: Counter[int], at_quota: Counter[int]) -> BlockRow:
    count = sum(demand.values()) + sum(at_quota.values())
    cells = [_waiting_cell(demand[size], at_quota[size], placeable[size]) for size in sizes]
    return {"name": "Waiting jobs", "note": f"{count}, by smallest size", "cells": cells, "total": False}


def _waiting_cell(waiting: int, at_quota: int, placeable: int) -> BlockCell:
    short = max(0, waiting - placeable)
    notes = [f"{short} short"] if short else []
    notes += [f"{at_quota} at quota" if waiting else "at quota"] if at_quota else []
    cell: BlockCell = {"text": str(waiting + at_quota), "fill": f"short-{min(short, STEPS)}" if short else "none"}
    if notes:
        cell["note"] = ", ".join(notes)
    return cell


def _sentence(idle: dict[int, tuple[int, int]], nodes: list[Node], demand: Counter[int]) -> Rich:
    """Say what is idle, the largest job that one node could take, and the demand beyond that."""
    gpus = sum(idle[node.pk][0] for node in nodes)
    if not gpus:
        return [{"text": "No GPU is idle.", "bold": True}, {"text": _beyond(demand, 0)}]
    largest = max(min(idle[node.pk]) for node in nodes)
    lead = f"{gpus} idle GPU{'s' if gpus != 1 else ''}, largest placeable job {largest}."
    return [{"text": lead, "bold": True}, {"text": _beyond(demand, largest)}]


def _beyond(demand: Counter[int], largest: int) -> str:
    """Say how many waiting jobs need more than the largest block."""
    larger = {need: count for need, count in demand.items() if need > largest}
    jobs = sum(larger.values())
    if not jobs:
        return " No waiting job needs more." if demand else " No GPU job waits."
    sizes = sorted(larger)
    words = str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    verb = "job needs" if jobs == 1 else "jobs need"
    return f" {jobs} waiting {verb} {words}."
