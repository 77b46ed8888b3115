"""Which ends a waiting job waits for: on the node where the expected ends leave it room first, if no other job took it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduler.fairness.reservation import expected_end_s
from scheduler.placement.feasibility import Level, usable, whole_offers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.model import ClusterState, Job, Node


@dataclass(frozen=True, slots=True)
class End:
    """An expected end of a running job: when, whose, and how many GPUs of the node are idle after it."""

    at_s: float
    job: int
    free: int


@dataclass(frozen=True, slots=True)
class Gathering:
    """GPUs of one node, as they come free for a job: `idle` now, then one by one until there are `need`."""

    node: str
    need: int
    idle: int
    ends: tuple[End, ...]


def gathering(state: ClusterState, job_id: int, now_s: float) -> Gathering | None:
    """The ends in the way of the waiting job's smallest size, soonest first, on the node that has room first.

    None where it waits for something else: a CPU job, one for a part of a GPU or for more than one node has, a node
    that has the GPUs already, ends that cannot be foreseen.
    """
    job = next((each for each in state.jobs if each.id == job_id), None)
    if job is None or job.is_cpu or job.part is not None:
        return None
    freed = _freed(state, now_s)
    offers = [each for each in whole_offers(state.nodes) if each.node.schedulable and usable(job, each, Level.TRUST)]
    found = [way for each in offers if (way := _way(job, each.node, freed[each.node.id])) is not None]
    if not found or any(not way.ends for way in found):
        return None
    return min(found, key=lambda way: (way.ends[-1].at_s, way.node))


def _freed(state: ClusterState, now_s: float) -> dict[int, list[tuple[float, int, int]]]:
    """Node -> (when, job, GPUs) of the expected ends there, soonest first."""
    found: dict[int, list[tuple[float, int, int]]] = defaultdict(list)
    for live in state.running:
        at_s = expected_end_s(live, now_s)
        for piece in live.pieces:
            if piece.gpus:
                found[piece.node].append((at_s, live.job, len(piece.gpus)))
    for ends in found.values():
        ends.sort()
    return found


def _way(job: Job, node: Node, freed: Iterable[tuple[float, int, int]]) -> Gathering | None:
    free = idle = len(node.idle_gpus)
    ends: list[End] = []
    for at_s, holder, gpus in freed:
        if free >= job.min_gpus:
            break
        free += gpus
        ends.append(End(at_s, holder, free))
    return Gathering(node.name, job.min_gpus, idle, tuple(ends)) if free >= job.min_gpus else None
