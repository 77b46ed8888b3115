"""Starts of a waiting job: by changes of its needs, or by expected ends of running jobs.

Larger sizes are not tried: they never fit where smaller ones do not. The cluster at a later time is as it will be if only
expected ends happen: nobody new comes, nothing is placed.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scheduler.asking.changes import Kind
from scheduler.copies import replace
from scheduler.estimator.lengths import is_sure
from scheduler.fairness.reservation import middle_end_s
from scheduler.model import ClusterState, Job, Node, Piece, Reason, Running
from scheduler.model.placements import is_instance, only_instances
from scheduler.placement.feasibility import Level, aggregated_gpus, first_failing, usable, whole_offers
from scheduler.placement.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.placement.free_capacity import Offer


def cluster_at(state: ClusterState, now_s: float, then_s: float) -> ClusterState:
    """The snapshot at `then_s`: jobs that should have ended are gone, and waiting jobs have waited longer."""
    ended = [live for live in state.running if middle_end_s(live, now_s) <= then_s]
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
        tenants=node.tenants - ({tenant for tenant, _ in back} - here - node.only),
        shared=tuple(
            replace(gpu, holders=tuple(each for each in gpu.holders if each.job not in gone)) for gpu in node.shared
        ),
    )


def releases(state: ClusterState, now_s: float) -> list[tuple[float, tuple[Running, ...]]]:
    """(time, jobs that are expected to end then), soonest first."""
    by_time: dict[float, list[Running]] = defaultdict(list)
    for live in state.running:
        by_time[middle_end_s(live, now_s)].append(live)
    return [(time_s, tuple(ended)) for time_s, ended in sorted(by_time.items())]


ENDS_MAX = 200
"""Expected ends of running jobs, soonest first, at which the job is asked whether it would fit."""


def tries(state: ClusterState, job: Job, now_s: float) -> list[tuple[Kind, Any]]:
    """The changes that could matter, each with its value, the cheapest for the tenant first."""
    if job.ineligible_reason in {Reason.RESTORED, Reason.INVALID}:
        return []  # no change by its tenant would be safe, or let it run
    if not job.eligible:
        return [(Kind.DEPENDENCY if job.ineligible_reason is Reason.DEPENDENCY else Kind.RELEASE, None)]
    ledger = Ledger(state.nodes, state.tenants, state.running)
    offers = ledger.idle_offers()
    there = {node.gpu_type for node in state.nodes if node.gpu_type and node.gpus_total}
    types = sorted(name for name in there - job.gpu_types if not is_instance(name))
    asks_types = job.gpu_types and types and not only_instances(job.gpu_types)
    fits_s = _fits_at(state, job, ledger, now_s)
    block = max((aggregated_gpus(job, offer) for offer in offers if usable(job, offer, Level.TRUST)), default=0)
    sizes = {size for size in (block, job.min_gpus // 2, 1) if 0 < size < job.min_gpus}
    return [
        *((Kind.CORES, cores) for cores in _cores(job, offers)),
        *((Kind.MEMORY, memory_mib) for memory_mib in _memory(job, offers)),
        *([(Kind.GPU_TYPE, types)] if asks_types else []),
        *((Kind.SIZE, size) for size in sorted(sizes, reverse=True)),
        *([(Kind.CHECKPOINT, None)] if job.checkpoint_domain is not None else []),
        *([(Kind.SOFTWARE, None)] if job.software else []),
        *([(Kind.WAIT, fits_s - now_s)] if fits_s is not None else []),
    ]


def _cores(job: Job, offers: list[Offer]) -> list[int]:
    """The most idle cores of one node with a CPU job's memory; a GPU job starts with fewer by itself."""
    if not job.is_cpu:
        return []
    idle = [o.cores for o in offers if usable(job, o, Level.TRUST) and o.memory_mib >= job.memory_mib]
    most = max(idle, default=0)
    return [most] if 0 < most < job.cores else []


def _memory(job: Job, offers: list[Offer]) -> list[int]:
    """The most that is idle on a node that has the GPUs (of a CPU job the cores)."""
    bare = replace(job, memory_mib=0)
    enough = [
        offer.memory_mib
        for offer in offers
        if usable(job, offer, Level.TRUST)
        and (offer.cores >= job.cores if job.is_cpu else aggregated_gpus(bare, offer) >= job.min_gpus)
    ]
    most = max(enough, default=0)
    return [most] if 0 < most < job.memory_mib else []


def _fits_at(state: ClusterState, job: Job, ledger: Ledger, now_s: float) -> float | None:
    """When the expected ends of running jobs leave room for the smallest size, if no other job waits; None = not foreseeable."""
    ledger = ledger.copy()
    for time_s, ended in releases(state, now_s)[:ENDS_MAX]:
        for live in ended:
            ledger.release(live.pieces, live.tenant)
        fits = first_failing(job, ledger.idle_offers(), ledger.largest) is None
        if fits and ledger.over_quota(job) is None:
            return time_s
    return None


@dataclass(frozen=True, slots=True)
class End:
    """An expected end of a running job: when, whose, how many GPUs of the node are idle after it, and whether it is no guess."""

    at_s: float
    job: int
    free: int
    known: bool = True


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


Freed = tuple[float, int, int, bool]


def _freed(state: ClusterState, now_s: float) -> dict[int, list[Freed]]:
    """Node -> (when, job, GPUs, whether that is known) of the expected ends there, soonest first."""
    found: dict[int, list[Freed]] = defaultdict(list)
    for live in state.running:
        at_s = middle_end_s(live, now_s)
        for piece in live.pieces:
            if piece.gpus:
                found[piece.node].append((at_s, live.job, len(piece.gpus), is_sure(live.spread)))
    for ends in found.values():
        ends.sort()
    return found


def _way(job: Job, node: Node, freed: Iterable[Freed]) -> Gathering | None:
    free = idle = len(node.idle_gpus)
    ends: list[End] = []
    for at_s, holder, gpus, known in freed:
        if free >= job.min_gpus:
            break
        free += gpus
        ends.append(End(at_s, holder, free, known))
    return Gathering(node.name, job.min_gpus, idle, tuple(ends)) if free >= job.min_gpus else None
