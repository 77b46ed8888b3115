"""Rounds that end early for running jobs (ours; algorithms.md section 7; docs/decisions/0166).

Between re-plans only waiting jobs get what becomes idle. Where nobody waits it stands idle until the round is over, beside
elastic jobs that would go faster on it. That is dear where a job's speed is only found out: it grows by one step a round, and
a job of twelve minutes spends half of its life on its first GPU.

So the next re-plan comes early, too, when a running job that may be changed would gain by what stands idle now, its restart
and more (`MARGIN`) paid. Only the oldest of them are looked at: the longest jobs are among them, for which the others wait.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from scheduler.errors import InvalidJob
from scheduler.placement.configurations import generate_on
from scheduler.placement.feasibility import idle_offers, with_lent
from scheduler.replan.participants import asked_after_s, present_configuration, restart_factor, restart_s_of, taking_part
from scheduler.replan.paying import paid

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from scheduler.model import Running
    from scheduler.placement.feasibility import Offer
    from scheduler.placement.work import Work

MARGIN = 1.1
"""The speed must rise by so much, restarts paid: a re-plan weighs what is borrowed at 0.95, and is a solve."""

MOST_GROWING = 16
"""So many running jobs are looked at."""

IDLE_SHARE = 0.01
"""And only where this part of the GPUs is idle."""


def due_s(work: Work, reserved: Collection[int], replanned_s: float | None, by_s: float | None) -> float | None:
    """When the next re-plan should be for a running job's sake; None = not before the round is over, or `by_s`.

    `work`: its ledger holds what this planning leaves. `reserved`: nodes on which what is idle is kept for somebody.
    """
    parameters, ledger = work.parameters, work.ledger
    least_s = parameters.replan_early_s
    if least_s is None or replanned_s is None or parameters.gain != "efficient":
        return None
    if not ledger.idle_gpus or ledger.idle_gpus < IDLE_SHARE * ledger.gpus_up:
        return None
    end_s = replanned_s + parameters.replan_s if by_s is None else by_s
    soonest_s = max(work.now_s, replanned_s + least_s)
    due = _when_changeable(work, soonest_s, end_s)
    offers = [each for each in idle_offers(ledger) if each.gpus and each.node.id not in reserved] if due else []
    return next((at_s for at_s, live in due if offers and gains(live, offers, work, at_s)), None)


def _when_changeable(work: Work, soonest_s: float, end_s: float) -> list[tuple[float, Running]]:
    """Of the oldest running jobs, those that may be changed before `end_s`, and from when on; the soonest first."""
    may = taking_part(work.state.running, work.ledger, work.parameters, math.inf)
    oldest = sorted(may, key=lambda live: (live.started_s if live.first_started_s is None else live.first_started_s, live.job))
    found = []
    for live in oldest[:MOST_GROWING]:
        at_s = max(soonest_s, live.started_s + asked_after_s(restart_s_of(live, work.parameters), work.parameters))
        if at_s < end_s:
            found.append((at_s, live))
    return sorted(found, key=lambda each: (each[0], each[1].job))


def gains(live: Running, offers: Sequence[Offer], work: Work, at_s: float) -> bool:
    """Whether the job would go faster by the margin, its restart paid, on these and on what it holds itself."""
    job = live.description
    assert job is not None
    first_s = live.started_s if live.first_started_s is None else live.first_started_s
    cost_s = restart_s_of(live, work.parameters)
    factor = min(restart_factor(at_s - first_s, live.restarts, cost_s), paid(live, work.parameters, at_s))
    if factor <= 0:
        return False
    try:
        present = present_configuration(live, job, work.ledger, work.estimator)
        found = generate_on(job, _own(live, offers, work), work.ledger, work.estimator, sigma=work.parameters.sigma)
    except InvalidJob:
        return False  # it runs on
    return max((each.throughput for each in found), default=0.0) * factor > MARGIN * present.throughput


def _own(live: Running, offers: Sequence[Offer], work: Work) -> list[Offer]:
    """The offers, with what the job itself holds."""
    own = {piece.node for piece in live.pieces}
    idle = {offer.node.id for offer in offers}
    full = [each for each in idle_offers(work.ledger) if each.node.id in own - idle]
    return sorted((with_lent(each, [live]) for each in (*offers, *full)), key=lambda offer: offer.node.id)
