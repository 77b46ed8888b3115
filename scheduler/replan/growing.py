"""Rounds that end early where nobody waited (ours; algorithms.md section 7; docs/decisions/0166).

Between re-plans only waiting jobs get what becomes idle. Where nobody waits it stands idle until the round is over, beside
elastic jobs that would go faster on it. That is dear where a job's speed is only found out: it grows by one step a round, and
a job of twelve minutes spends half of its life on its first GPU.

So the next re-plan comes early, too, when a running job that may be changed would gain by the idle GPUs, its restart and more
(`MARGIN`) paid. Only the oldest of them are looked at: the longest jobs are among them, for which the others wait.

Jobs that grew leave nothing idle for the next jobs. So the re-plan also comes early when only jobs wait that came since the last
one, and a running job would lose less by giving one of them its GPUs than that one gains by starting. It comes when the oldest
of the jobs that would give may be changed. Where the new job's wait until then would be noticed (`NOTICED_LR`), it comes when the
first of them may be changed. While older jobs wait as well, all wait for the round's end.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from scheduler.errors import InvalidJob
from scheduler.placement.configurations import generate_on
from scheduler.placement.feasibility import with_lent
from scheduler.replan.participants import asked_after_s, first_s_of, present_configuration, restart_s_of, taking_part
from scheduler.replan.paying import factors

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from scheduler.model import Ranked, Running
    from scheduler.placement.free_capacity import Offer
    from scheduler.placement.objective import Gain
    from scheduler.placement.work import Work

MARGIN = 1.1
"""The speed must rise by this factor, restarts paid: a re-plan weighs borrowed GPUs at 0.95, and is a solve."""

MOST_GROWING = 16
"""The most running jobs that are looked at."""

IDLE_SHARE = 0.01
"""And only where this part of the GPUs is idle."""

NOTICED_LR = 0.02
"""From this latency ratio on a new job does not wait for the oldest job that would make room, if another may sooner."""

MOST_NODES = 64
"""The most nodes of each GPU type that are looked at, those with the most idle GPUs. The solve before this has a limit."""


def due_s(
    work: Work,
    waiting: Iterable[Ranked],
    gain: Gain,
    reserved: Collection[int],
    replanned_s: float | None,
    by_s: float | None,
) -> float | None:
    """When the next re-plan should be by these two rules; None = not before the round is over, or `by_s`.

    `work`: its ledger holds what this planning leaves. `waiting`: the eligible jobs without a place, in queue order. `reserved`:
    nodes on which what is idle is kept for somebody.
    """
    parameters = work.parameters
    least_s = parameters.replan_early_s
    if least_s is None or replanned_s is None or parameters.gain != "efficient":
        return None
    end_s = replanned_s + parameters.replan_s if by_s is None else by_s
    soonest_s = max(work.now_s, replanned_s + least_s)
    if soonest_s >= end_s:
        return None
    due = _when_changeable(work, soonest_s, end_s)
    found = [
        _for_idle_gpus(due[:MOST_GROWING], work, reserved),
        _for_new_jobs(due[:MOST_GROWING], waiting, work, gain, replanned_s),
    ]
    return min((each for each in found if each is not None), default=None)


def _for_new_jobs(
    due: Sequence[tuple[float, Running]], waiting: Iterable[Ranked], work: Work, gain: Gain, replanned_s: float
) -> float | None:
    """When a job that would become smaller may be changed, if jobs wait and all of them came since the last re-plan.

    The oldest is waited for until the first of the new jobs has waited for `NOTICED_LR` of its age.
    """
    needed = noticed_s = math.inf
    for ranked in waiting:
        if ranked.job.is_cpu:
            continue
        if ranked.job.submitted_s <= replanned_s:
            return None
        needed = min(needed, ranked.job.min_gpus)
        noticed_s = min(noticed_s, work.now_s + NOTICED_LR * ranked.age_s - ranked.job.wait_s)
    yielding = [at_s for at_s, live in due if yields(live, needed, work, gain, at_s)]
    return max(min(yielding), min(yielding[0], noticed_s)) if yielding else None


def yields(live: Running, gpus: float, work: Work, gain: Gain, at_s: float) -> bool:
    """Whether the job loses less by these GPUs, its restart paid, than another gains that starts on them (G = 1)."""
    job = live.description
    assert job is not None
    sizes = [size for size in job.requirement if size <= live.gpus - gpus]
    if not sizes:
        return False
    node = work.ledger.free[live.pieces[0].node].node
    try:
        least, less = (work.estimator.throughput(job, [node], size).value for size in (sizes[0], sizes[-1]))
        now = present_configuration(live, job, work.ledger, work.estimator)
    except InvalidJob:
        return False
    kept = less * factors(live, now, work, at_s).usual
    return gain.of(now.throughput / least) - gain.of(kept / least) < 1.0


def _for_idle_gpus(due: Sequence[tuple[float, Running]], work: Work, reserved: Collection[int]) -> float | None:
    """When one of these would gain by the idle GPUs."""
    ledger = work.ledger
    if not ledger.idle_gpus or ledger.idle_gpus < IDLE_SHARE * ledger.gpus_up:
        return None
    every = {each.node.id: each for each in ledger.idle_offers()}
    offers = _most_idle(each for each in every.values() if each.gpus and each.node.id not in reserved)
    return min((at_s for at_s, live in due if offers and gains(live, offers, every, work, at_s)), default=None)


def _most_idle(offers: Iterable[Offer]) -> list[Offer]:
    """The nodes of each type with the most idle GPUs, of equal ones the first."""
    found: dict[str | None, list[Offer]] = {}
    for each in sorted(offers, key=lambda offer: (-offer.gpus, offer.node.id)):
        of_type = found.setdefault(each.node.gpu_type, [])
        if len(of_type) < MOST_NODES:
            of_type.append(each)
    return [each for of_type in found.values() for each in of_type]


def _when_changeable(work: Work, soonest_s: float, end_s: float) -> list[tuple[float, Running]]:
    """The running jobs that may be changed before `end_s`, and from when on; the oldest first."""
    found = []
    for live in taking_part(work.state.running, work.ledger, work.parameters, math.inf, pays=work.pays):
        kept_s = asked_after_s(restart_s_of(live, work.parameters), work.parameters, pays=work.pays)
        at_s = max(soonest_s, live.started_s + kept_s)
        if at_s < end_s:
            found.append((at_s, live))
    return sorted(found, key=lambda each: (first_s_of(each[1]), each[1].job))


def gains(live: Running, offers: Sequence[Offer], every: Mapping[int, Offer], work: Work, at_s: float) -> bool:
    """Whether the job would go faster by the margin, its restart paid, on these and on what it holds. `every`: node -> offer."""
    job = live.description
    assert job is not None
    try:
        present = present_configuration(live, job, work.ledger, work.estimator)
        left = factors(live, present, work, at_s)
        if max(left.usual, left.teaching) <= 0:
            return False
        # The offers with the job's own GPUs.
        others = {piece.node for piece in live.pieces} - {offer.node.id for offer in offers}
        every_offer = (*offers, *(every[node] for node in others if node in every))
        own = sorted((with_lent(each, [live]) for each in every_offer), key=lambda offer: offer.node.id)
        found = generate_on(job, own, work.ledger, work.estimator, sigma=work.parameters.sigma)
    except InvalidJob:
        return False  # it runs on
    return any(each.throughput * left.of_one(each) > MARGIN * present.throughput for each in found)
