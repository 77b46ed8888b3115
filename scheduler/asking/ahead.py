"""The cluster as it will be at a later time if only expected ends happen: nobody new comes, nothing is placed."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from scheduler.copies import replace
from scheduler.fairness.reservation import expected_end_s

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.model import ClusterState, Job, Node, Piece, Running


def at(state: ClusterState, now_s: float, then_s: float) -> ClusterState:
    """The snapshot at `then_s`: jobs that should have ended are gone, and waiting jobs have waited longer."""
    ended = [live for live in state.running if expected_end_s(live, now_s) <= then_s]
    gone = {live.job for live in ended}
    staying = tuple(live for live in state.running if live.job not in gone)
    return replace(
        state,
        nodes=[freed(node, ended, staying) for node in state.nodes],
        running=staying,
        jobs=[waited(job, then_s - now_s) for job in state.jobs],
    )


def waited(job: Job, more_s: float) -> Job:
    """The job after more seconds of waiting; only eligible waiting counts."""
    return replace(job, wait_s=job.wait_s + more_s) if job.eligible else job


def freed(node: Node, ended: Iterable[Running], staying: Iterable[Running]) -> Node:
    """The node with the resources of the ended jobs; a tenant with no job left there is gone from it."""
    back = [(live.tenant, piece) for live in ended for piece in live.pieces if piece.node == node.id]
    if not back:
        return node
    here = {live.tenant for live in staying if any(piece.node == node.id for piece in live.pieces)}
    pieces: list[Piece] = [piece for _, piece in back]
    gone = {live.job for live in ended}
    return replace(
        node,
        idle_gpus=(*node.idle_gpus, *(gpu for piece in pieces for gpu in piece.gpus)),
        idle_cores=(*node.idle_cores, *(core for piece in pieces for core in piece.cores)),
        idle_memory_mib=node.idle_memory_mib + sum(piece.memory_mib for piece in pieces),
        tenants=node.tenants - ({tenant for tenant, _ in back} - here),
        shared=tuple(
            replace(gpu, holders=tuple(each for each in gpu.holders if each.job not in gone)) for gpu in node.shared
        ),
    )


def releases(state: ClusterState, now_s: float) -> list[tuple[float, tuple[Running, ...]]]:
    """(time, jobs that are expected to end then), soonest first."""
    by_time: dict[float, list[Running]] = defaultdict(list)
    for live in state.running:
        by_time[expected_end_s(live, now_s)].append(live)
    return [(time_s, tuple(ended)) for time_s, ended in sorted(by_time.items())]
