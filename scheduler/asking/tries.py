"""Which changes could start a waiting job. Larger sizes are not tried: they never fit where smaller ones do not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduler.asking import ahead
from scheduler.asking.changes import Kind
from scheduler.copies import replace
from scheduler.model import ClusterState, Job, Reason
from scheduler.model.instances import is_instance, only_instances
from scheduler.placement.feasibility import Level, aggregated_gpus, first_failing, usable
from scheduler.placement.ledger import Ledger

if TYPE_CHECKING:
    from scheduler.placement.free_capacity import Offer

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
        *((Kind.CORES if job.is_cpu else Kind.CORES_PER_GPU, cores) for cores in _cores(job, offers)),
        *((Kind.MEMORY, memory_mib) for memory_mib in _memory(job, offers)),
        *([(Kind.GPU_TYPE, types)] if asks_types else []),
        *((Kind.SIZE, size) for size in sorted(sizes, reverse=True)),
        *([(Kind.CHECKPOINT, None)] if job.checkpoint_domain is not None else []),
        *([(Kind.SOFTWARE, None)] if job.software else []),
        *([(Kind.WAIT, fits_s - now_s)] if fits_s is not None else []),
    ]


def _cores(job: Job, offers: list[Offer]) -> list[int]:
    """The fewest a GPU; of a CPU job the most idle cores of one node with the memory."""
    if not job.is_cpu:
        return [job.least_cores] if job.cores > job.least_cores else []
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
    for time_s, ended in ahead.releases(state, now_s)[:ENDS_MAX]:
        for live in ended:
            ledger.release(live.pieces, live.tenant)
        fits = first_failing(job, ledger.idle_offers(), ledger.largest) is None
        if fits and ledger.over_quota(job) is None:
            return time_s
    return None
