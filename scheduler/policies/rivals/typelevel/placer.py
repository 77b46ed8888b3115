"""Sia's placer (SOSP '23, 3.5): from GPUs of a type to nodes.

Rules: less than a node is never split over two nodes, and whole nodes are whole. Where these cannot be kept, jobs are evicted
and placed again. A job that keeps its configuration stays where it is, if it can. The others are placed largest first, on the
fullest node that holds them. The evicted are the smallest that make room, and smaller than the job that needs it. With powers of
two every job fits that the type has GPUs for; with other sizes some may not, and those go without this round.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


@dataclass(frozen=True, slots=True)
class Want:
    """A job and its GPUs. `held`: node -> GPUs where it runs in this configuration now; `nodes`: where it may be."""

    job: int
    gpus: int
    held: dict[int, int] | None = None
    nodes: Collection[int] | None = None

    def may_use(self, node: int) -> bool:
        return self.nodes is None or node in self.nodes


@dataclass(slots=True)
class _Nodes:
    node_gpus: int
    free: dict[int, int]
    placed: dict[int, dict[int, int]] = field(default_factory=dict)
    staying: dict[int, Want] = field(default_factory=dict)

    def put(self, want: Want, spots: dict[int, int]) -> None:
        self.placed[want.job] = spots
        for node, gpus in spots.items():
            self.free[node] -= gpus

    def evict(self, want: Want) -> None:
        for node, gpus in self.placed.pop(want.job).items():
            self.free[node] += gpus
        del self.staying[want.job]


def place(wants: Sequence[Want], free: dict[int, int], node_gpus: int) -> dict[int, dict[int, int]]:
    """Node -> GPUs of each job that could be placed. `free`: idle GPUs of each node, and those of these jobs."""
    cluster = _Nodes(node_gpus, dict(free))
    for want in wants:
        if want.held is not None:
            cluster.put(want, want.held)
            cluster.staying[want.job] = want
    waiting = [want for want in wants if want.held is None]
    while waiting:
        waiting.sort(key=lambda each: -each.gpus)  # stable: the queue's order among equals
        want = waiting.pop(0)
        spots = _fit(want, cluster)
        if spots is None:
            evicted = _make_room(want, cluster)
            for each in evicted:
                cluster.evict(each)
            waiting += evicted
            spots = _fit(want, cluster)
        if spots is not None:
            cluster.put(want, spots)
    return cluster.placed


def _fit(want: Want, cluster: _Nodes) -> dict[int, int] | None:
    whole, rest = divmod(want.gpus, cluster.node_gpus)
    empty = [node for node, gpus in cluster.free.items() if gpus == cluster.node_gpus and want.may_use(node)]
    if len(empty) < whole:
        return None
    spots = dict.fromkeys(empty[:whole], cluster.node_gpus)
    if rest:
        open_to = [
            (gpus, node)
            for node, gpus in cluster.free.items()
            if gpus >= rest and node not in spots and want.may_use(node)
        ]
        if not open_to:
            return None
        spots[min(open_to)[1]] = rest
    return dict(sorted(spots.items()))


def _make_room(want: Want, cluster: _Nodes) -> list[Want]:
    """Those to evict so that it fits: on the nodes where that costs the fewest GPUs; none when nothing helps."""
    whole, rest = divmod(want.gpus, cluster.node_gpus)
    needs = [cluster.node_gpus] * whole + ([rest] if rest else [])
    evicted: dict[int, Want] = {}
    used: set[int] = set()
    for need in needs:
        ways = [
            (sum(each.gpus for each in victims), node, victims)
            for node in cluster.free
            if node not in used
            and want.may_use(node)
            and (victims := _victims(want, need, node, cluster, evicted)) is not None
        ]
        if not ways:
            return []
        _, node, victims = min(ways, key=lambda way: way[:2])
        used.add(node)
        evicted |= {each.job: each for each in victims}
    return list(evicted.values())


def _victims(want: Want, need: int, node: int, cluster: _Nodes, evicted: Collection[int]) -> list[Want] | None:
    """The other jobs that must leave the node for these GPUs, the smallest first; None = all of them are not enough."""
    free = cluster.free[node] + sum(cluster.placed[job].get(node, 0) for job in evicted)
    victims: list[Want] = []
    there = [each for each in cluster.staying.values() if node in cluster.placed[each.job] and each.job not in evicted]
    for each in sorted(there, key=lambda one: (one.gpus, one.job)):
        if free >= need:
            break
        if each.gpus < want.gpus:
            victims.append(each)
            free += cluster.placed[each.job][node]
    return victims if free >= need else None
