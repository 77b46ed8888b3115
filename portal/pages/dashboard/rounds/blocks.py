"""Idle blocks against queued demand: how many jobs of each size would fit each node now, and how many wait."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from portal.cluster.models import HEALTHS
from portal.pages.dashboard.board.facts import UP
from portal.pages.dashboard.parts.formatting import DASH, number

if TYPE_CHECKING:
    from portal.pages.dashboard.board.facts import Block, Facts
    from portal.pages.dashboard.parts.context import Rich
    from portal.pages.dashboard.parts.snapshot import Snapshot

STEPS = 4
"""Steps of either ramp: one for each job to spare or short; the last stands for all higher counts."""


def blocks_context(snapshot: Snapshot) -> dict[str, Any] | None:
    """Return the table: one row for each node, or for each GPU type when nodes are many; None without any GPU."""
    facts = snapshot.facts
    nodes = [place for place in facts.alive if facts.gpus[place]]
    if not nodes:
        return None
    demand, at_quota = _demand(snapshot)
    sizes = block_sizes(max(facts.gpus[place] for place in nodes), max([1, *demand, *at_quota]))
    placeable = _placeable(sizes, nodes, facts)
    make_rows = _type_rows if snapshot.is_large else _node_rows
    rows = make_rows(nodes, sizes, facts)
    cells = [{"text": number(count), "fill": ramp_of(count)} for count in placeable.values()]
    rows.append({"name": "Placeable now", "note": _amounts(_sum_idle(nodes, facts)), "cells": cells, "total": True})
    rows.append(_waiting_row(sizes, placeable, _bucketed(demand, sizes), _bucketed(at_quota, sizes)))
    return {
        "sentence": _sentence(nodes, demand, facts),
        "sizes": sizes,
        "rows": rows,
        "per": "GPU type" if snapshot.is_large else "Node",
        "number": snapshot.last_plannings[0].number if snapshot.last_plannings else None,
    }


def block_sizes(largest_node: int, largest_need: int) -> list[int]:
    """Return 1, 2, 4 ... up to the largest node or need, whichever is larger."""
    sizes = [1]
    while sizes[-1] < max(largest_node, largest_need):
        sizes.append(2 * sizes[-1])
    return sizes


def blocks_in(size: int, gpus: int, cores: int) -> int:
    """Return how many jobs of `size` GPUs fit, with at least one core per GPU."""
    return min(gpus // size, cores // size)


def _placeable(sizes: list[int], nodes: list[int], facts: Facts) -> dict[int, int]:
    """Return how many jobs of each size fit now. Nodes with the same blocks are looked at once."""
    kinds = Counter(tuple(facts.blocks[place]) for place in nodes)
    return {size: _placeable_of(size, kinds) for size in sizes}


def _placeable_of(size: int, kinds: Counter[tuple[Block, ...]]) -> int:
    """Return the jobs of a size that fit now: on a node, or spread over nodes of one type when no node is so large."""
    blocks = [([each for each in own if size == 1 or not each.is_cut], count) for own, count in kinds.items()]
    if any(each.gpus >= size for own, _ in blocks for each in own):
        return sum(
            count * min(sum(each.idle // size for each in own), own[0].cores // size) for own, count in blocks if own
        )
    by_type: dict[str | None, int] = defaultdict(int)
    for own, count in blocks:
        for each in own:
            by_type[each.gpu_type] += count * min(each.idle, each.cores)
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


def _node_rows(nodes: list[int], sizes: list[int], facts: Facts) -> list[dict[str, Any]]:
    return [
        {
            "name": facts.names[place] + (f", {each.gpu_type}" if len(blocks) > 1 else ""),
            "note": _amounts((each.idle, each.cores)) if facts.health[place] == UP else HEALTHS[facts.health[place]],
            "cells": [_cell(size, (each.idle, each.cores), 1 if each.is_cut else each.gpus) for size in sizes],
            "total": False,
        }
        for place in nodes
        for blocks in [facts.blocks[place]]
        for each in blocks
    ]


def _type_rows(nodes: list[int], sizes: list[int], facts: Facts) -> list[dict[str, Any]]:
    """Add up the nodes of each GPU type."""
    by_type: dict[str, list[int]] = defaultdict(list)
    for place in nodes:
        by_type[facts.types[place] or ""].append(place)
    return [
        {
            "name": name,
            "note": _amounts(_sum_idle(places, facts)),
            "cells": [
                {"text": number(count) if count else DASH, "fill": ramp_of(count)}
                for count in _placeable(sizes, places, facts).values()
            ],
            "total": False,
        }
        for name, places in sorted(by_type.items())
    ]


def _sum_idle(places: list[int], facts: Facts) -> tuple[int, int]:
    idle = [facts.idle(place) for place in places]
    return sum(gpus for gpus, _ in idle), sum(cores for _, cores in idle)


def _amounts(idle: tuple[int, int]) -> str:
    return f"{number(idle[0])}, {number(idle[1])}"


def _cell(size: int, idle: tuple[int, int], gpu_count: int) -> dict[str, Any]:
    gpus, cores = idle
    if size > gpu_count:
        return {"text": DASH, "fill": "none"}
    count = blocks_in(size, gpus, cores)
    if count:
        return {"text": str(count), "fill": ramp_of(count)}
    if gpus == 0:
        return {"text": "full", "fill": "none"}
    if gpus >= size:
        return {"text": "no cores", "fill": "short-1"}
    return {"text": f"{size - gpus} short", "fill": "none"}


def ramp_of(count: int) -> str:
    """Return the `fill` of a cell with room; one that is short has `short-1` and so on."""
    return f"ramp-{min(count, STEPS - 1) + 1}" if count else "none"


def _waiting_row(
    sizes: list[int], placeable: dict[int, int], demand: Counter[int], at_quota: Counter[int]
) -> dict[str, Any]:
    count = sum(demand.values()) + sum(at_quota.values())
    cells = [_waiting_cell(demand[size], at_quota[size], placeable[size]) for size in sizes]
    return {"name": "Waiting jobs", "note": f"{number(count)}, by smallest size", "cells": cells, "total": False}


def _waiting_cell(waiting: int, at_quota: int, placeable: int) -> dict[str, Any]:
    short = max(0, waiting - placeable)
    notes = [f"{number(short)} short"] if short else []
    notes += [f"{number(at_quota)} at quota" if waiting else "at quota"] if at_quota else []
    cell: dict[str, Any] = {
        "text": number(waiting + at_quota),
        "fill": f"short-{min(short, STEPS)}" if short else "none",
    }
    if notes:
        cell["note"] = ", ".join(notes)
    return cell


def _sentence(nodes: list[int], demand: Counter[int], facts: Facts) -> Rich:
    """Say what is idle, the largest job that one node could take, and the demand beyond that."""
    gpus, apart = _sum_idle(nodes, facts)[0], sum(facts.for_sharing(place) for place in nodes)
    besides = f" (besides {number(apart)} for jobs that share a GPU)" if apart else ""
    if not gpus:
        return [{"text": f"No GPU is idle{besides}.", "bold": True}, {"text": _beyond(demand, 0)}]
    largest = max(min(each.most, each.cores) for place in nodes for each in facts.blocks[place])
    lead = f"{number(gpus)} idle GPU{'s' if gpus != 1 else ''}{besides}, largest placeable job {largest}."
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
    return f" {number(jobs)} waiting {verb} {words}."
