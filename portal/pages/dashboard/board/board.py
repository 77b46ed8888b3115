"""The board of one h: a byte a GPU for active share, use, memory and state, and the groups' figures. Pure.

`active`, `use`, `memory` are per cent, 255 for unknown; `state` is a number of `GpuState`. `order` gives, a grouping, each
group's nodes as they are drawn: by active share, then drained, unreachable and dead ones. It changes once in `ORDER_S` only,
so that nothing moves under the pointer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from portal.cluster.gpu_states import GpuState, instance_of
from portal.foundation.environment import env
from portal.pages.dashboard.board.facts import DEAD, UP

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from portal.pages.dashboard.board.facts import Facts

UNKNOWN = 255
ORDER_S = 360
"""One round."""

Board = dict[str, Any]


def board_made(
    facts: Facts,
    *,
    hours: int,
    gpu_held_s: dict[int, float],
    core_held_s: dict[int, float],
    measured_at: float,
    demand: Demand,
    before: Board | None,
) -> Board:
    """Return the board without its version. `measured_at`: when the held seconds were summed, Unix time."""
    spans = [measured_at - max(measured_at - hours * 3600, joined) for joined in facts.joined]
    active = _active(facts, spans, gpu_held_s)
    cores = _cores_active(facts, spans, core_held_s)
    means = [_mean(active[start : start + count]) for start, count in zip(facts.starts, facts.gpus, strict=True)]
    made = {
        "h": hours,
        "nodes": facts.names,
        "gpus": facts.gpus,
        "health": facts.health,
        "heard": [None if at is None else int(at) for at in facts.heard],
        "active": [_byte(None if share is None else 100 * share) for share in active],
        "use": [_byte(value) for value in facts.uses],
        "memory": [_byte(value) for value in facts.memories],
        "state": _states(facts),
        "groups": {
            name: groups_of(facts, name, active=active, cores=cores, demand=demand) for name in groupings(facts)
        },
    }
    return made | _order(facts, made, means, before)


def _active(facts: Facts, spans: Sequence[float], held_s: Mapping[int, float]) -> list[float | None]:
    """Return each GPU's held share of its node's span in seconds; None on a node that has just joined."""
    found: list[float | None] = []
    for place, start in enumerate(facts.starts):
        span = spans[place]
        held = (held_s.get(gpu, 0.0) for gpu in facts.gpu_ids[start : start + facts.gpus[place]])
        found += [min(1.0, seconds / span) if span > 0 else None for seconds in held]
    return found


def _cores_active(facts: Facts, spans: Sequence[float], held_s: Mapping[int, float]) -> list[float | None]:
    """Return the held share of each node's cores over its span in seconds."""
    return [
        min(1.0, held_s.get(node, 0.0) / (span * count)) if span > 0 and count else None
        for node, span, count in zip(facts.ids, spans, facts.cores, strict=True)
    ]


def _mean(shares: Sequence[float | None]) -> float:
    known = [share for share in shares if share is not None]
    return sum(known) / len(known) if known else 0.0


def _byte(percent: float | None) -> int:
    return UNKNOWN if percent is None else round(min(100.0, max(0.0, percent)))


def _states(facts: Facts) -> list[int]:
    """Return each GPU's state; of a node's idle ones the last are drawn as kept (which ones, nobody has decided)."""
    found: list[int] = []
    for place in range(len(facts.names)):
        states = facts.states(place)
        plain_idle = states.count(GpuState.IDLE) - facts.kept[place]
        for state in states:
            plain_idle -= state is GpuState.IDLE
            found.append(GpuState.KEPT if state is GpuState.IDLE and plain_idle < 0 else state)
    return found


def _order(facts: Facts, made: Board, means: list[float], before: Board | None) -> dict[str, Any]:
    same = (
        before is not None
        and before["nodes"] == made["nodes"]
        and before["gpus"] == made["gpus"]
        and list(before["order"]) == list(made["groups"])
        and 0 <= facts.at - before["ordered_at"] < ORDER_S
        and all(before["titles"][by] == [group["title"] for group in made["groups"][by]] for by in made["groups"])
    )
    if same and before is not None:
        return {name: before[name] for name in ("order", "titles", "ordered_at")}
    order, titles = {}, {}
    for by, groups in made["groups"].items():
        names = group_titles(facts, by)
        titles[by] = [group["title"] for group in groups]
        members: dict[str, list[int]] = {title: [] for title in titles[by]}
        for place in sorted(range(len(names)), key=lambda p: (facts.health[p], -means[p], facts.names[p])):
            members[names[place]].append(place)
        order[by] = [members[title] for title in titles[by]]
    return {"order": order, "titles": titles, "ordered_at": facts.at}


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
        **dict(zip(("computing", "unmeasured"), computing_of(facts, places), strict=True)),
        "active": _tenths(sum(gpu_shares) / len(gpu_shares)) if gpu_shares else None,
        "cores": _tenths(core_held / core_total) if core_total else None,
        "idle": sum(facts.idle(place)[0] for place in places),
        "sharing": sum(facts.for_sharing(place) for place in places),
        "kept": sum(facts.kept[place] for place in places if facts.health[place] == UP),
        "largest": largest,
        "short": short_of(demand, {each.gpu_type for place in alive for each in facts.blocks[place]}, largest),
    }


def computing_of(facts: Facts, places: Iterable[int]) -> tuple[int, int]:
    """Count the held GPUs of these nodes that compute, and those of which nobody knows.

    One computes that is as busy as that of a job which is used (BERTH_IDLE_GPU_PERCENT).
    """
    limit = env("BERTH_IDLE_GPU_PERCENT")
    spans = [slice(facts.starts[place], facts.starts[place] + facts.gpus[place]) for place in places]
    uses = [use for own in spans for use, held in zip(facts.uses[own], facts.held[own], strict=True) if held]
    return sum(use is not None and use >= limit for use in uses), uses.count(None)


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
