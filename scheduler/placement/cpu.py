"""CPU jobs: best fit by cores and memory, away from nodes whose GPUs are idle and short of cores (section 7, step 8).

Of the nodes that can hold the job it takes the one where the fewest cores are lost that idle GPUs would want (4 each, CODA's
start for a job of unknown kind). Ties: the fewest cores left over, then the least memory left over, then the id. On nodes without
idle GPUs nothing is lost, so CPU nodes and busy GPU nodes fill first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.estimator.cores import DEFAULT_CORES
from scheduler.model import Configuration, Job, Share
from scheduler.placement.feasibility import ties_allowed

LIMIT_SHARE = 0.03
"""The part of a planning's time limit that is the CPU jobs' own, however long the solver took: to place them is fast."""
WALKS = 0.2
"""Beside it, the time that the walk over them takes, over that of checking and ordering the queue."""

if TYPE_CHECKING:
    from scheduler.placement.free_capacity import Offer
    from scheduler.placement.ledger import Ledger


def choose(job: Job, ledger: Ledger) -> Configuration | None:
    """The configuration of a CPU job by best fit; None when no node holds it or a quota forbids it."""
    if ledger.quota_shortfall(job.tenant, 0, job.cores) is not None:
        return None
    offers = ledger.equal_nodes.offers() if job.checkpoint_domain is None else ledger.idle_offers()
    best = min((offer for offer in offers if fits(job, offer)), key=lambda offer: _cost(job, offer), default=None)
    if best is None:
        return None
    return on(job, best)


def on(job: Job, offer: Offer) -> Configuration:
    """The configuration of a CPU job there."""
    return Configuration(job.id, (Share(offer.node.id, 0, job.cores, job.memory_mib),), 1.0, "cpu")


def shape(job: Job) -> tuple[object, ...]:
    """The needs by which a CPU job fits. Within a planning room only shrinks, so once a shape does not fit, it never does."""
    return (job.tenant, job.cores, job.memory_mib, job.bound)


def fits(job: Job, offer: Offer) -> bool:
    """Whether the offer holds the CPU job, quotas apart."""
    return (
        job.cores <= offer.cores
        and job.memory_mib <= offer.memory_mib
        and ties_allowed(job, offer.node)
        and offer.admits(job.tenant)
    )


def _cost(job: Job, offer: Offer) -> tuple[int, int, int, int]:
    left = offer.cores - job.cores
    wanted = offer.gpus * DEFAULT_CORES
    missing_more = max(0, wanted - left) - max(0, wanted - offer.cores)
    return (missing_more, left, offer.memory_mib - job.memory_mib, offer.node.id)
