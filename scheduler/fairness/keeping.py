"""Idle GPUs that a waiting job may not use, and the jobs for which they are kept (algorithms.md section 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.fairness.arrays import Array
from scheduler.fairness.keepers import RESERVATION, Keeper, in_the_way, kept_figures
from scheduler.placement.feasibility import first_failing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from scheduler.fairness.borrowing import AccessRules
    from scheduler.model import Ranked
    from scheduler.placement.access import Access
    from scheduler.placement.free_capacity import Offer
    from scheduler.placement.outcome import DraftPlan
    from scheduler.placement.work import Work

GPU_ARRAYS = (Array.GPU_SMALL, Array.GPU_LARGE)


def kept_from(
    picked: Sequence[Ranked], work: Work, access_rules: AccessRules, draft: DraftPlan
) -> dict[int, Mapping[str, object]]:
    """For the jobs that would fit idle GPUs if these were not kept for others: job id -> the figures of those others."""
    kept: dict[int, Mapping[str, object]] = {}
    left = work.ledger.idle_offers()
    known: dict[tuple[object, ...], dict[str, object] | None] = {}
    for ranked in picked:
        job = ranked.job
        if job.id in draft.chosen or job.id in draft.invalid:
            continue
        if work.remaining_s <= 0:
            break
        access = access_rules.access(ranked)
        shape = (job.requirement, job.gpu_types, job.memory_mib, job.bound, job.tenant, job.least_cores)
        if (*shape, access) not in known:
            fits = first_failing(job, left, work.ledger.largest) is None
            known[*shape, access] = kept_by(ranked, access, left, work, access_rules) if fits else None
        if (figures := known[*shape, access]) is not None:
            kept[job.id] = figures
    return kept


def kept_by(
    ranked: Ranked, access: Access, left: Sequence[Offer], work: Work, access_rules: AccessRules
) -> dict[str, object]:
    """The jobs or the pool for which the idle GPUs are kept that would hold the job."""
    job, largest = ranked.job, work.ledger.largest
    open_to = {offer.node.id: offer for offer in access_rules.offers(ranked)}

    def holds(nodes: Iterable[int]) -> bool:
        """Whether it would fit with all that is idle on these nodes as well."""
        more = {offer.node.id: offer for offer in left if offer.node.id in set(nodes)}
        return first_failing(job, [*(open_to | more).values()], largest) is None

    barring = [access_rules.reservations[number][0] for number in sorted(access.barred)]
    if holds(node for each in barring for node in each.nodes):
        gpus = {offer.node.id: offer.gpus for offer in left}
        names = {node: work.ledger.free[node].node.name for each in barring for node in each.nodes}
        keepers = [
            Keeper(
                each.job,
                each.tenant,
                each.nodes,
                sum(gpus.get(node, 0) for node in each.nodes),
                each.until_s,
                RESERVATION,
            )
            for each in barring
        ]
        return kept_figures(job, in_the_way(keepers, holds), names)
    owners = (Array.CPU,) if access.limited and holds(open_to) else GPU_ARRAYS
    owner = next((own for own in owners if own not in access.arrays or own is Array.CPU), None)
    return {
        "kept_for": "array",
        "array": str(access.home),
        "owner": owner and str(owner),
        "borrowing": access_rules.lends,
    }
