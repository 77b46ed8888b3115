"""CPU jobs: best fit by cores and memory, away from nodes whose GPUs are idle and short of cores (section 7, step 8).

Among the nodes that hold the job, the one where it costs idle GPUs the fewest cores they would want (4 each, CODA's
start for a job of no known kind); then the fewest cores left over, then the least memory left over, then the id. Nodes
without idle GPUs cost nothing, so CPU nodes and busy GPU nodes fill first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.estimator.cores import DEFAULT_CORES
from scheduler.model import Configuration, Share
from scheduler.placement.feasibility import domain_allowed

if TYPE_CHECKING:
    from scheduler.model import Job
    from scheduler.placement.ledger import Ledger, Room


def choose(job: Job, ledger: Ledger) -> Configuration | None:
    """The configuration of a CPU job by best fit; None when no node holds it or a quota forbids it."""
    if ledger.quota_shortfall(job.tenant, 0, job.cores) is not None:
        return None
    fitting = (room for room in ledger.rooms.values() if _fits(job, room))
    best = min(fitting, key=lambda room: _cost(job, room), default=None)
    if best is None:
        return None
    return Configuration(job.id, (Share(best.node.id, 0, job.cores, job.memory_mib),), 1.0, "cpu")


def shape(job: Job) -> tuple[object, ...]:
    """What decides whether a CPU job fits: within a planning room only shrinks, so a shape that failed stays failed."""
    return (job.tenant, job.cores, job.memory_mib, job.checkpoint_domain)


def _fits(job: Job, room: Room) -> bool:
    return (
        job.cores <= len(room.cores)
        and job.memory_mib <= room.memory_mib
        and domain_allowed(job, room.node)
        and room.admits(job.tenant)
    )


def _cost(job: Job, room: Room) -> tuple[int, int, int, int]:
    left = len(room.cores) - job.cores
    wanted = len(room.gpus) * DEFAULT_CORES
    missing_more = max(0, wanted - left) - max(0, wanted - len(room.cores))
    return (missing_more, left, room.memory_mib - job.memory_mib, room.node.id)
