"""DRF (NSDI '11, Algorithm 1), the baseline of CODA's evaluation: one pool of GPUs and cores for all jobs.

The tenant with the smallest weighted dominant share - the larger of its shares of all GPUs and of all cores, whoever
uses them - starts its next job, its jobs being in order of submission. A tenant whose next job does not fit is passed over
until the next planning. That cores of CPU jobs and GPUs count in one share is what CODA's arrays do away with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduler.fairness.drf import Shares
from scheduler.fairness.priorities import PRIORITIES
from scheduler.model import SolverFigures
from scheduler.placement import turn
from scheduler.work import Outcome

if TYPE_CHECKING:
    from scheduler.fairness.priorities import Priority
    from scheduler.policy import Parameters
    from scheduler.work import Ranked, Work


@dataclass(frozen=True, slots=True)
class Drf:
    name: str = "drf"
    meaning: str = "the tenant with the smallest dominant share of GPUs and cores starts its next job"
    replans: bool = False

    def priority(self, parameters: Parameters) -> Priority:
        return PRIORITIES["fifo"]

    def place(self, work: Work) -> Outcome:
        outcome = Outcome(window_gpus=work.ledger.gpus_up)
        gpus, cores = _shares(work)
        waiting: dict[int, list[Ranked]] = {}
        for ranked in reversed(work.queue):
            waiting.setdefault(ranked.job.tenant, []).append(ranked)
        while waiting:
            if work.remaining_s <= 0:
                outcome.out_of_time.update(late.job.id for jobs in waiting.values() for late in jobs)
                break
            tenant = min(waiting, key=lambda each: (max(gpus.of(each), cores.of(each)), waiting[each][-1].rank))
            ranked = waiting[tenant][-1]
            if not _start(ranked, work, outcome):
                outcome.blocked_tenants[tenant] = ranked
                del waiting[tenant]
                continue
            waiting[tenant].pop()
            if ranked.job.id in outcome.chosen:
                placement = outcome.chosen[ranked.job.id].placement
                gpus.add(tenant, placement.gpus)
                cores.add(tenant, placement.cores)
            if not waiting[tenant]:
                del waiting[tenant]
        if outcome.chosen:
            outcome.solver = SolverFigures(incumbent="greedy")
        return outcome


def _shares(work: Work) -> tuple[Shares, Shares]:
    nodes = [room.node for room in work.ledger.rooms.values()]
    weights = {tenant.id: tenant.weight for tenant in work.state.tenants}
    gpus = Shares(sum(node.gpus_total for node in nodes), weights)
    cores = Shares(sum(node.cores_total for node in nodes), weights)
    for live in work.state.running:
        gpus.add(live.tenant, live.gpus)
        cores.add(live.tenant, live.cores)
    return gpus, cores


def _start(ranked: Ranked, work: Work, outcome: Outcome) -> bool:
    """Whether the tenant goes on with its next job: this one started, or only its own faults keep it back."""
    outcome.window.add(ranked.job.id)
    if work.ledger.over_quota(ranked.job) is not None:
        return True
    return turn.take_turn(ranked, work, outcome)


POLICY = Drf()
