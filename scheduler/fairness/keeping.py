"""Idle resources that are kept, their keepers and times: promises (section 7), reservations and arrays (section 4).

A job for which resources are kept is a *keeper*. Its time is when it should start, or when its promise lapses. A waiting job
shows one keeper: the first, by time, whose resources would be enough to start it. If no single one would, it shows all keepers.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scheduler.fairness.arrays import Array
from scheduler.placement.feasibility import first_failing
from scheduler.placement.free_capacity import Offer, Withheld

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from scheduler.fairness.borrowing import AccessRules
    from scheduler.model import Job, Promise, Promised, Ranked, Running
    from scheduler.placement.access import Access
    from scheduler.placement.ledger import Ledger
    from scheduler.placement.outcome import DraftPlan
    from scheduler.placement.work import Work


RESERVATION = "reservation"
KEEPERS_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Keeper:
    """A job that resources are kept for. `gpus`: idle ones of them; None where another keeps some of the same node.

    `until_s`: on the snapshot's clock. `cause`: "reservation", or that of the promise's stop.
    """

    job: int
    tenant: int
    nodes: frozenset[int]
    gpus: int | None
    until_s: float
    cause: str


def in_the_way(keepers: Iterable[Keeper], helps: Callable[[frozenset[int]], bool]) -> list[Keeper]:
    """The keeper to tell of, or all of them, soonest first. `helps`: whether these nodes would let the job start."""
    every = sorted(keepers, key=lambda each: (each.until_s, each.job))
    alone = next((each for each in every if helps(each.nodes)), None)
    return every if alone is None else [alone]


def kept_figures(job: Job, keepers: Sequence[Keeper], names: Mapping[int, str]) -> dict[str, Any]:
    """The figures for the job's tenant: another tenant's job has no id. `names`: of nodes."""
    told = [
        {
            "job": each.job if each.tenant == job.tenant else None,
            "nodes": sorted(names[node] for node in each.nodes)[:KEEPERS_SHOWN],
            "gpus": each.gpus,
            "until_s": each.until_s,
            "cause": each.cause,
        }
        for each in keepers[:KEEPERS_SHOWN]
    ]
    kind = "job" if all(each.cause == RESERVATION for each in keepers) else "promise"
    return {"kept_for": kind, "keepers": told, "more": max(0, len(keepers) - KEEPERS_SHOWN)}


def promise_keepers(
    promised: Mapping[int, Promise],
    promises: Iterable[Promised],
    final: Ledger,
    queue: Iterable[Ranked],
    running: Iterable[Running],
    *,
    now_s: float,
    lapse_s: float,
) -> list[Keeper]:
    """The jobs for whose promises, given before and by this plan, something idles.

    `final`: the rest after the plan, promised resources withheld. `lapse_s`: a promise that is older than this is given up.
    """
    given = {number: (kept.shares, kept.given_s, kept.cause) for number, kept in promised.items()}
    given |= {each.job: (each.shares, now_s, each.cause) for each in promises}
    if not given:
        return []
    tenants = {live.job: live.tenant for live in running if live.job in given}
    tenants |= {each.job.id: each.job.tenant for each in queue if each.job.id in given}
    idle = {number: free.kept for number, free in final.free.items() if free.kept != Withheld()}
    holders = Counter(node for shares, _, _ in given.values() for node in {share.node for share in shares})
    found = []
    for number, (shares, given_s, cause) in given.items():
        nodes = frozenset(share.node for share in shares if share.node in idle)
        alone = all(holders[node] == 1 for node in nodes)
        gpus = sum(len(idle[node].gpus) for node in nodes) if alone else None
        if nodes and number in tenants:
            found.append(Keeper(number, tenants[number], nodes, gpus, given_s + lapse_s, cause))
    return found


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
