"""One job's turn in a pass over the queue: it takes the best that is left, or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.errors import InvalidJob
from scheduler.placement import configurations, cpu
from scheduler.placement.greedy import best_fit
from scheduler.work import Chosen

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.model import Configuration, Job
    from scheduler.work import Outcome, Ranked, Work


def take_turn(ranked: Ranked, work: Work, outcome: Outcome) -> bool:
    """Place the job on what the ledger has left, if it fits, and record it. InvalidJob is recorded, not raised."""
    job = ranked.job
    try:
        offers = _cpu_offers(ranked, work) if job.is_cpu else _gpu_offers(job, work)
    except InvalidJob as error:
        outcome.invalid[job.id] = error
        return True  # it does not block anyone
    best = best_fit(offers, work.ledger, job.tenant)
    outcome.candidates.setdefault(job.id, offers)
    if best is None:
        return False
    gain = outcome.gain_of(best, offers)
    placement = work.ledger.take(best, job.tenant)
    outcome.chosen[job.id] = Chosen(best, placement, gain, outcome.weights.get(job.id, 1.0), len(offers))
    return True


def place_cpu_jobs(queue: Iterable[Ranked], work: Work, outcome: Outcome) -> None:
    """Step 8 of section 7: CPU jobs in queue order, whoever fits; no window, for they do not compete for GPUs."""
    failed: set[tuple[object, ...]] = set()
    waiting = list(queue)
    for position, ranked in enumerate(waiting):
        if work.remaining_s <= 0:
            outcome.out_of_time.update(late.job.id for late in waiting[position:])
            return
        outcome.window.add(ranked.job.id)
        if cpu.shape(ranked.job) not in failed and not take_turn(ranked, work, outcome):
            failed.add(cpu.shape(ranked.job))


def _gpu_offers(job: Job, work: Work) -> tuple[Configuration, ...]:
    return configurations.generate(job, work.ledger, work.estimator, sigma=work.parameters.sigma)


def _cpu_offers(ranked: Ranked, work: Work) -> tuple[Configuration, ...]:
    best = cpu.choose(ranked.job, work.ledger)
    return () if best is None else (best,)
