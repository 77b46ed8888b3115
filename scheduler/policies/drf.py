"""DRF (NSDI '11, Algorithm 1), the baseline of CODA's evaluation: one pool of GPUs and cores for all jobs.

The tenant with the smallest weighted dominant share starts its next job, its jobs being in order of submission. The dominant
share is the larger of its shares of all GPUs and of all cores. A tenant whose next job does not fit is passed over until the
next planning. Cores of CPU jobs and GPUs count in one share here; CODA's arrays do away with that.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from scheduler.fairness.arrays import Shares
from scheduler.model import Ranked, by_tenant
from scheduler.parameters.choices import POLICIES
from scheduler.placement import turn
from scheduler.placement.outcome import DraftPlan, Obstacles, Outcome, Standings, greedy_figures
from scheduler.policies.policy import Policy

if TYPE_CHECKING:
    from scheduler.placement.work import Work


def place(work: Work) -> Outcome:
    draft = DraftPlan()
    standings = Standings(window_gpus=work.ledger.gpus_up)
    blocked: dict[int, Ranked] = {}
    out_of_time: frozenset[int] = frozenset()
    gpus, cores = pool_shares(work)
    lines = by_tenant(work.queue)
    heads = {tenant: next(line) for tenant, line in lines.items()}
    while heads:
        if work.remaining_s <= 0:
            out_of_time = frozenset(
                late.job.id for tenant, head in heads.items() for late in chain([head], lines[tenant])
            )
            break
        tenant = min(heads, key=lambda each: (max(gpus.of(each), cores.of(each)), heads[each].rank))
        ranked = heads.pop(tenant)
        standings.window.add(ranked.job.id)
        # Where only its tenant's quota keeps a job back, the tenant goes on with its next one.
        held_back = work.ledger.over_quota(ranked.job) is not None
        if not held_back and not turn.take_turn(ranked, work, draft):
            blocked[tenant] = ranked
            continue
        if ranked.job.id in draft.chosen:
            placement = draft.chosen[ranked.job.id].placement
            gpus.add(tenant, placement.gpus)
            cores.add(tenant, placement.cores)
        if (following := next(lines[tenant], None)) is not None:
            heads[tenant] = following
    obstacles = Obstacles(out_of_time=out_of_time, blocked_tenants=blocked)
    return Outcome(draft, standings, obstacles, greedy_figures(draft))


def pool_shares(work: Work) -> tuple[Shares, Shares]:
    """Each tenant's share of all GPUs, and of all cores."""
    ledger, weights = work.ledger, {tenant.id: tenant.weight for tenant in work.state.tenants}
    held = ledger.held.items()
    return (
        Shares(ledger.gpus_up, weights, {tenant: gpus for tenant, (gpus, _) in held}),
        Shares(ledger.cores_up, weights, {tenant: cores for tenant, (_, cores) in held}),
    )


POLICY = Policy("drf", POLICIES["drf"], place, is_fair=lambda _: True)
