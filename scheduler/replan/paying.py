"""Changes of running jobs that pay (ours; algorithms.md section 6, `gain = efficient`; docs/decisions/0035).

The paper's factor on a changed configuration, F = (T - N*S) / (T + S), compares the cost of restarts with a job's whole time. For
a job that has run for hours that is hardly anything: the longest jobs, which the makespan waits for, were moved seven to eleven
times each, for a few per cent of speed. Here a change must pay within the time for which it is kept in any case:

    f = min(F, 1 - (1 + N / GENTLE) * S / H)

H = the time that the new configuration should stand: the longest of KEPT_RESTARTS * S, a round, and the time that the present
one has stood. N = its restarts so far: after twelve restarts a change must pay for four. A configuration that has stood for hours
will probably stand for hours again. Without that a job that was moved often in a crowd could never again move to idle GPUs a
quarter faster. The job's expected end is not used, because a slow job is far from its end for as long as it is slow.

Growth to more GPUs than a job ever had, at a speed not known yet, need not be earned by a long past (docs/decisions/0223).
F asks of a change of a job of two minutes that it be half as fast again; so one whose speed is only found out would have half of
its life behind it before it knows where it runs well. Each such size is new to it once, so that neither H nor N has to hold it
back. Where it tells its work, the restart must pay within the rest of the run, R seconds at the present speed:

    f = 1 - S / R

All factors are on throughput, and so inside the exponent of G (`placement.objective`).

*Growth* ends rounds early where nobody waited (ours; algorithms.md section 7; docs/decisions/0166).
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
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from scheduler.copies import replace
from scheduler.errors import InvalidJob
from scheduler.model import Configuration, Ranked, Running
from scheduler.placement.configurations import generate_on
from scheduler.placement.feasibility import with_lent
from scheduler.placement.running import Factors, Participant
from scheduler.replan.participants import (
    asked_after_s,
    first_s_of,
    kept_for_s,
    present_configuration,
    restart_factor,
    restart_s_of,
    taking_part,
)

if TYPE_CHECKING:
    from scheduler.estimator.estimator import Estimator
    from scheduler.parameters import Parameters
    from scheduler.placement.free_capacity import Offer
    from scheduler.placement.objective import Gain
    from scheduler.placement.work import Work


GENTLE = 4.0
"""After every four restarts the next change must pay for one restart more."""


def under(work: Work, gain: Gain) -> Work:
    """The work in which the factors of all changeable running jobs follow this rule."""
    if not work.changeable:
        return work

    def own(known: Mapping[int, Participant]) -> dict[int, Participant]:
        return {
            number: replace(
                each, factors=found._replace(usual=gain.kept(found.usual), teaching=gain.kept(found.teaching))
            )
            for number, each in known.items()
            for found in (factors(each.live, each.present, work, work.now_s),)
        }

    return replace(work, participants=own(work.participants), left_out=own(work.left_out))


def factors(live: Running, present: Configuration, work: Work, at_s: float) -> Factors:
    """The part of the speed that a restart leaves at that time; under the exponent of G `Gain.kept` of it.

    `present`: as the job runs now.
    """
    restart_s = restart_s_of(live, work.parameters)
    usual = min(restart_factor(at_s - first_s_of(live), live.restarts, restart_s), paid(live, work.parameters, at_s))
    left_s = left_to_run_s(live, present, work.estimator)
    if live.description is None or left_s is None:
        return Factors(usual, usual)
    teaching = 1.0 - restart_s / left_s if left_s > restart_s else 0.0
    return Factors(usual, teaching, max(live.gpus, live.description.most_gpus))


def left_to_run_s(live: Running, present: Configuration, estimator: Estimator) -> float | None:
    """Seconds to its end at its present speed; None where the job does not tell its work, or nothing is known of its speed."""
    job = live.description
    if job is None or job.total_samples is None or not estimator.is_known(job):
        return None
    return job.total_samples * (1.0 - min(1.0, job.done_fraction)) / present.throughput


def paid(live: Running, parameters: Parameters, now_s: float) -> float:
    """The part of H that is left when the restarts that a change must pay for are taken off."""
    restart_s = restart_s_of(live, parameters)
    stays_s = max(kept_for_s(restart_s, parameters.replan_s), now_s - live.started_s)
    return max(0.0, 1.0 - (1.0 + live.restarts / GENTLE) * restart_s / stays_s)


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


def growth_due_s(
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
        found = generate_on(work.tied(job), own, work.ledger, work.estimator, sigma=work.parameters.sigma)
    except InvalidJob:
        return False  # it runs on
    return any(each.throughput * left.of_one(each) > MARGIN * present.throughput for each in found)
