"""Idle instances go to jobs for which no whole GPU was left (ours; algorithms.md section 5).

Whole GPUs are preferred: this comes after the policy has placed everybody. In queue order each job that may have an instance
takes the fastest one that is idle and that it fits. Reserved ones stay reserved. Policies in which no job passes another do it in
turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.errors import InvalidJob
from scheduler.model.placements import is_instance
from scheduler.placement import turn
from scheduler.placement.configurations import generate_on
from scheduler.placement.feasibility import on_instance
from scheduler.placement.located import thin
from scheduler.placement.turn import best_fit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.model import Configuration, Job, Ranked
    from scheduler.placement.outcome import Outcome
    from scheduler.placement.work import Work

CANDIDATES_KEPT = 64
"""The most candidates kept to explain a job: each node is one, and the jobs are as many as the instances."""


def hand_out(queue: Sequence[Ranked], work: Work, outcome: Outcome) -> None:
    """Start jobs that this planning left waiting."""
    ledger, draft, strict = work.ledger, outcome.draft, outcome.obstacles
    idle = {number for number, free in ledger.free.items() if free.gpus and is_instance(free.node.gpu_type)}
    idle -= {node for each in outcome.reservations for node in each.nodes}
    if not idle or strict.blocked_by is not None or strict.blocked_tenants:
        return
    failed = set[tuple[object, ...]]()
    for ranked in queue:
        if work.remaining_s <= 0:
            return
        job = on_instance(ranked.job, ledger)
        if job is None or draft.has(job.id) or job.promise is not None or turn.shape(job) in failed:
            continue
        found = _configurations(job, idle, work)
        best = best_fit(found, ledger, job.tenant)
        if best is None:
            failed.add(turn.shape(job))
            continue
        draft.chosen[job.id] = outcome.draft.objective.chosen(best, ledger.take(best, job.tenant), found)
        kept = thin(found, CANDIDATES_KEPT, ranked.rank)
        outcome.draft.candidates[job.id] = tuple(kept) if best in kept else (*kept, best)


def _configurations(job: Job, nodes: set[int], work: Work) -> tuple[Configuration, ...]:
    offers = [free.offer for number, free in work.ledger.free.items() if number in nodes and free.gpus]
    try:
        return generate_on(job, offers, work.ledger, work.estimator, sigma=work.parameters.sigma)
    except InvalidJob:
        return ()  # its speed there cannot be estimated
