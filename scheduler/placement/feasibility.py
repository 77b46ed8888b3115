"""Could a job's smallest size be placed on these offers, and if not, which need fails first? (sections 5 and 7)

Needs are added one after another: GPUs, software, the checkpoint's storage domain, nodes that stay open for as long as the job
needs them, trust between tenants, memory, cores. The first level at which nothing is left is the reason. The same question is
asked of idle resources, of whole nodes that are up ("would it ever start?") and of all nodes ("would it start if every node
were back?").
A job that asks for no instance may have one where no whole GPU is left for it (ours; section 5).
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from scheduler.copies import replace
from scheduler.estimator.measured import signature
from scheduler.model.placements import only_instances
from scheduler.placement.free_capacity import Offer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scheduler.model import Job, Node, Running
    from scheduler.placement.ledger import Ledger


class Level(IntEnum):
    """A need; each level includes those before it."""

    GPUS = 0
    SOFTWARE = 1
    CHECKPOINT = 2
    CLOSING = 3
    TRUST = 4
    MEMORY = 5
    CORES = 6


def with_lent(offer: Offer, lenders: Iterable[Running]) -> Offer:
    """The offer with these jobs' resources on its node."""
    pieces = [piece for live in lenders for piece in live.pieces if piece.node == offer.node.id]
    return replace(
        offer,
        gpus=offer.gpus + sum(len(piece.gpus) for piece in pieces),
        cores=offer.cores + sum(len(piece.cores) for piece in pieces),
        memory_mib=offer.memory_mib + sum(piece.memory_mib for piece in pieces),
    )


def whole_offers(nodes: Iterable[Node]) -> list[Offer]:
    """Whole nodes, as if nothing ran there."""
    return [Offer(node, node.gpus_total, node.most_cores, node.most_memory_mib) for node in nodes]


def type_allowed(job: Job, node: Node) -> bool:
    """Whether the node's GPUs are of a type that the job may use. Any node serves a CPU job."""
    return job.is_cpu or (node.gpus_total > 0 and job.may_use(node.gpu_type))


def software_allowed(job: Job, node: Node) -> bool:
    return not job.software or job.software in node.offers


def domain_allowed(job: Job, node: Node) -> bool:
    return job.checkpoint_domain is None or node.domain == job.checkpoint_domain


def open_long_enough(job: Job, node: Node, *, wait_s: float = 0.0) -> bool:
    """Whether the node closes late enough for the job, if it starts there after `wait_s`: see `scheduler.planning.closing`."""
    return node.closes_s >= job.open_until_s + wait_s


def ties_allowed(job: Job, node: Node) -> bool:
    """Whether the node meets all that ties the job to some of the nodes (`Job.bound`)."""
    return node.closes_s >= job.open_until_s and software_allowed(job, node) and domain_allowed(job, node)


def usable(job: Job, offer: Offer, level: Level) -> bool:
    """Whether the job may go to this node at all, by the needs up to `level` that concern the node as a whole."""
    return (
        type_allowed(job, offer.node)
        and (level < Level.SOFTWARE or software_allowed(job, offer.node))
        and (level < Level.CHECKPOINT or domain_allowed(job, offer.node))
        and (level < Level.CLOSING or offer.node.closes_s >= job.open_until_s)
        and (level < Level.TRUST or offer.admits(job.tenant))
    )


def possible(job: Job, offers: Sequence[Offer], level: Level, largest: dict[str, int]) -> bool:
    """Whether R_1 (or the CPU job) can be placed on the offers when only the needs up to `level` count."""
    if job.is_cpu:
        return any(
            (level < Level.MEMORY or job.memory_mib <= offer.memory_mib)
            and (level < Level.CORES or job.cores <= offer.cores)
            and usable(job, offer, level)
            for offer in offers
        )
    # Numbers first: queues and clusters are long, and most nodes are too full.
    size = job.min_gpus
    if any(
        offer.gpus >= size and aggregated_gpus(job, offer, level) >= size and usable(job, offer, level)
        for offer in offers
    ):
        return True
    large = {gpu_type for gpu_type, most in largest.items() if size > most}
    by_type: dict[str | None, int] = {}
    for offer in offers if large else ():
        if offer.node.gpu_type not in large or not usable(job, offer, level):
            continue
        part = distributed_gpus(job, offer, job.min_gpus, level)
        by_type[offer.node.gpu_type] = by_type.get(offer.node.gpu_type, 0) + part
    return any(gpus >= job.min_gpus for gpus in by_type.values())


def first_failing(job: Job, offers: Sequence[Offer], largest: dict[str, int]) -> Level | None:
    """The level at which nothing is left; None = it can be placed."""
    if possible(job, offers, Level.CORES, largest):
        return None
    return next(level for level in Level if not possible(job, offers, level, largest))


def any_fits(jobs: Iterable[Job], ledger: Ledger) -> bool:
    """Whether what is idle could hold the smallest size of any of these jobs. Each kind of job is looked at once."""
    offers = [offer for offer in ledger.idle_offers() if offer.gpus or offer.cores]
    asked: set[tuple[object, ...]] = set()
    for job in jobs:
        kind = (job.min_gpus, job.gpu_types, job.min_cores, job.memory_mib, job.bound, job.tenant)
        if kind not in asked and possible(job, offers, Level.CORES, ledger.largest):
            return True
        asked.add(kind)
    return False


def aggregated_gpus(job: Job, offer: Offer, level: Level = Level.CORES) -> int:
    """GPUs a one-node placement could have there: all or, for want of memory, none; `least_cores` each."""
    if level >= Level.MEMORY and job.memory_mib > offer.memory_mib:
        return 0
    return min(offer.gpus, offer.cores // job.least_cores) if level >= Level.CORES else offer.gpus


def distributed_gpus(job: Job, offer: Offer, size: int, level: Level = Level.CORES) -> int:
    """GPUs a part of a placement of `size` GPUs could have there; memory is split in proportion to the GPUs."""
    gpus = min(offer.gpus, size)
    if level >= Level.MEMORY and job.memory_mib:
        gpus = min(gpus, offer.memory_mib * size // job.memory_mib)
    return min(gpus, offer.cores // job.least_cores) if level >= Level.CORES else gpus


def on_instance(job: Job, ledger: Ledger, *, ever: bool = False) -> Job | None:
    """The job as it asks for one instance instead of whole GPUs; None = it may not have one, or asks only for instances.

    It must accept one GPU, and either name types of instances beside whole GPUs, or accept any type; and no run under its
    signature was seen to need more memory. `ever`: skip the last, for it differs between jobs of a kind.
    """
    if not ledger.instances or job.requirement[0] != 1 or job.part is not None or only_instances(job.gpu_types):
        return None
    types = ledger.instances & job.gpu_types if job.gpu_types else ledger.instances
    if ledger.too_small and not ever:
        types -= ledger.too_small.get(signature(job), frozenset())
    return replace(job, requirement=(1,), gpu_types=types) if types else None
