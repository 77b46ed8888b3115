"""Groups of nodes on the board: their size, use and need. Pure: columns in, plain values out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from portal.cluster.gpu_states import instance_of
from portal.pages.dashboard.board.facts import DEAD, UP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from portal.pages.dashboard.board.facts import Facts

Demand = list[tuple[int, list[str], int]]
"""(smallest size, allowed GPU types, jobs); no types: any."""

GROUPINGS = {"type": "Type", "rack": "Rack", "label": "Label"}
WITHOUT = {"type": "without GPUs", "rack": "no rack given", "label": "no label given"}


def groupings(facts: Facts) -> list[str]:
    """Return how nodes may be grouped: by type, and by rack or label when an operator has given any."""
    told = {"rack": facts.racks, "label": facts.labels}
    return ["type", *(name for name, values in told.items() if any(values))]


def group_titles(facts: Facts, by: str) -> list[str]:
    """Return each node's group."""
    columns: dict[str, Sequence[str | None]] = {"type": facts.types, "rack": facts.racks, "label": facts.labels}
    return [value or WITHOUT[by] for value in columns[by]]


def groups_of(
    facts: Facts, by: str, *, active: Sequence[float | None], cores: Sequence[float | None], demand: Demand
) -> list[dict[str, Any]]:
    """Return the groups by name, those without a name last. `active`: a share 0..1 a GPU; `cores`: one a node."""
    titles = group_titles(facts, by)
    members: dict[str, list[int]] = {}
    for place, title in enumerate(titles):
        members.setdefault(title, []).append(place)
    rest = WITHOUT[by]
    return [
        _group(facts, title, members[title], active=active, cores=cores, demand=demand)
        for title in sorted(members, key=lambda title: (title == rest, title))
    ]


def _group(
    facts: Facts,
    title: str,
    places: list[int],
    *,
    active: Sequence[float | None],
    cores: Sequence[float | None],
    demand: Demand,
) -> dict[str, Any]:
    alive = [place for place in places if facts.health[place] != DEAD]
    gpu_shares = _gpu_shares(facts, alive, active)
    core_total = sum(facts.cores[place] for place in alive if cores[place] is not None)
    core_held = sum((cores[place] or 0.0) * facts.cores[place] for place in alive)
    blocks = [each for place in places for each in facts.blocks[place]]
    largest = max((min(each.most, each.cores) for each in blocks), default=0)
    return {
        "title": title,
        "nodes": len(places),
        "up": sum(1 for place in places if facts.health[place] == UP),
        "gpus": sum(facts.gpus[place] for place in alive),
        "held": sum(facts.gpus_held[place] for place in places),
        "active": _tenths(sum(gpu_shares) / len(gpu_shares)) if gpu_shares else None,
        "cores": _tenths(core_held / core_total) if core_total else None,
        "idle": sum(facts.idle(place)[0] for place in places),
        "sharing": sum(facts.for_sharing(place) for place in places),
        "kept": sum(facts.kept[place] for place in places if facts.health[place] == UP),
        "largest": largest,
        "short": short_of(demand, {each.gpu_type for place in alive for each in facts.blocks[place]}, largest),
    }


def _gpu_shares(facts: Facts, places: Sequence[int], active: Sequence[float | None]) -> list[float]:
    """Return the known active shares of these nodes' GPUs."""
    shares = (active[facts.starts[place] : facts.starts[place] + facts.gpus[place]] for place in places)
    return [share for own in shares for share in own if share is not None]


def _tenths(share: float) -> float:
    """A share 0..1 -> per cent with one decimal."""
    return round(100 * share, 1)


def short_of(demand: Demand, types: set[str | None], largest: int) -> int:
    """Count the eligible jobs that may run on one of these types and need more than the largest idle block."""
    return sum(
        jobs
        for size, allowed, jobs in demand
        if size > largest
        and (types & set(allowed) if allowed else any(each and not instance_of(each) for each in types))
    )
