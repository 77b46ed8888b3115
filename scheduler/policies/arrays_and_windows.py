"""What `coda` and `berth` share (algorithms.md sections 4 and 7): arrays, progressive windows, stages, giving back.

In a re-plan running elastic jobs take part in the first stage, and what they hold counts as idle for windows and solves.
The windows are filled over all GPU arrays; starving first jobs get their reservation; the fronts are placed, then the
backfills, each stage jointly by one ILP or job by job; what a gap or a limit left open is topped up; owners' jobs that
borrowers keep out call back the fewest of them; CPU jobs come last, in the order of their tenants' shares.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from scheduler.fairness import sensitivity
from scheduler.fairness.arrays import Array
from scheduler.fairness.borrowing import AccessRules, HomeArrays
from scheduler.fairness.cpu_queue import place_cpu_queue
from scheduler.fairness.keeping import note_kept
from scheduler.fairness.standings import standings_of, views_of
from scheduler.fairness.sweep import LIMIT_SHARE, NO_SWEEP, Sweep
from scheduler.placement import cpu
from scheduler.placement.gain import LINEAR, efficient
from scheduler.placement.joint import is_located
from scheduler.placement.running import joint_weights
from scheduler.placement.work import Outcome
from scheduler.policies.filling import adjust, apart, divided, fill
from scheduler.policies.reserving import drop_reservations, note_pressing, reserve
from scheduler.policies.stages import first_stage, place_stages, settle
from scheduler.replan.better import Rules, take_better
from scheduler.replan.call_backs import call_back
from scheduler.replan.making_room import make_room
from scheduler.replan.nearby import replan_nearby
from scheduler.replan.participants import by_class, joint
from scheduler.replan.paying import under
from scheduler.replan.realise import realise

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scheduler.fairness.progressive import Windows
    from scheduler.model import Ranked, Running, ShareView
    from scheduler.placement.feasibility import Offer
    from scheduler.placement.gain import Gain
    from scheduler.placement.ledger import Ledger
    from scheduler.placement.work import Work
    from scheduler.policies.mode import Mode


def place(work: Work, mode: Mode) -> Outcome:
    """One planning's placing by these rules."""
    began_s = work.clock()
    division = divided(work, mode)
    gpu_queue, cpu_queue = apart(work.queue, mode)
    homes = HomeArrays(division, work.ledger)
    whole, work = work, work.before(LIMIT_SHARE * mode.sweep + cpu.LIMIT_SHARE * bool(cpu_queue))
    gain, work = _gained(gpu_queue, work, mode)
    solving = joint(work)  # in a re-plan what participants hold is idle too, until `realise`
    windows, shares = fill(gpu_queue, solving, mode, division, homes)
    if mode.joint and work.adjusts_sensitivity and sensitivity.tells_apart(work.estimator):
        windows = adjust(windows, gpu_queue, work, homes)
    window_s = work.clock() - began_s
    waiting = {*windows.arrays, *([Array.CPU] if cpu_queue else [])}
    access_rules = AccessRules(division, homes, work.ledger, work.state.running, waiting, borrow=mode.borrow, gain=gain)
    access_rules.limit(each.job for each in gpu_queue)
    outcome = Outcome({}, {each.job.id for each in windows.picked}, set(windows.sated), gain=gain)
    outcome.home = homes.of
    outcome.standings, outcome.windows = standings_of(windows), views_of(windows)
    outcome.shares, outcome.window_s = shares, window_s
    outcome.window_gpus = sum(window.capacity for window in windows.by_array.values())
    outcome.weights = {
        **joint_weights(windows.picked, work.changeable, work.parameters.lambda_, floor=gain.floor),
        # At the head of its array nobody weighs more.
        **{each.job.id: 1.0 for each in windows.picked if each.job.gave_back},
    }
    outcome.turn_shares, outcome.factors = dict(windows.share_when_picked) if mode.fair else {}, access_rules.factor
    outcome.may_end_round = mode.joint
    urgent = note_pressing(windows, work, mode, outcome)
    reserve(windows, work, mode, access_rules, outcome)
    work, solving = work.with_least(), solving.with_least()
    if work.participants and (is_located(work) or by_class(work)):
        _replan(windows, solving, mode, access_rules, outcome)
        realise(work, outcome)
    else:
        if work.participants:
            replan_nearby(
                first_stage(windows, outcome), solving, work, outcome, lambda near: _shared(near, access_rules)
            )
            work = replace(work, participants={})
            drop_reservations(access_rules, outcome)
        place_stages(windows, work, mode, access_rules, outcome)
        settle(windows, work, access_rules, outcome)
    rules = Rules(_offers_beside(work, access_rules), access_rules.factor, _taking(shares if mode.fair else ()))
    make_room(urgent, first_stage(windows, outcome), work, outcome, rules)
    drop_reservations(access_rules, outcome)
    access_rules.refresh()
    note_kept(() if mode.sweep else windows.picked, work, access_rules, outcome)
    if mode.borrow and mode.arrays:
        call_back(windows.by_array, work, access_rules, division, outcome, replans=mode.joint)
    sweep = Sweep(gpu_queue, windows.picked, whole, access_rules, outcome, fair=mode.fair) if mode.sweep else NO_SWEEP
    sweep.start()
    place_cpu_queue(cpu_queue, whole, outcome, access_rules, division, fair=mode.fair, borrow=mode.borrow)
    sweep.finish()
    if work.left_out:
        take_better(replace(whole, left_out=work.left_out), outcome, rules)
    return outcome


def _gained(gpu_queue: Sequence[Ranked], work: Work, mode: Mode) -> tuple[Gain, Work]:
    """What sizes are worth in this planning, and the planning in which a restart counts by that."""
    if not mode.efficient:
        return LINEAR, work
    gain = efficient((each.job for each in gpu_queue), work)
    return gain, under(work, gain)


def _replan(windows: Windows, solving: Work, mode: Mode, access_rules: AccessRules, outcome: Outcome) -> None:
    """The stages with running jobs in the first of them, on what is idle and what those hold."""
    shared = _shared(solving, access_rules)
    place_stages(windows, solving, mode, shared, outcome)
    settle(windows, solving, shared, outcome)
    access_rules.reservations = shared.reservations


def _shared(solving: Work, access_rules: AccessRules) -> AccessRules:
    """The terms on the resources that participants and waiting jobs share."""
    others = [live for live in solving.state.running if live.job not in solving.participants]
    shared = access_rules.on(solving.ledger, others)
    waiting = (each.job for each in solving.queue if not each.job.is_cpu)
    shared.limit([*(each.job for each in solving.participants.values()), *waiting])
    return shared


def _offers_beside(work: Work, access_rules: AccessRules) -> Callable[[Ranked, Ledger], Sequence[Offer]]:
    """By these terms, what a running job may use on a ledger on which what it holds is idle."""

    def offers(ranked: Ranked, ledger: Ledger) -> Sequence[Offer]:
        return access_rules.on(ledger, [live for live in work.state.running if live.job != ranked.job.id]).offers(
            ranked
        )

    return offers


def _taking(shares: Sequence[ShareView]) -> Callable[[Ranked, Running], bool]:
    """Of whom an urgent job may take: of its own tenant, and of those that hold no less than its tenant does."""
    held = {each.tenant: each.held / each.weight for each in shares}

    def may_take(ranked: Ranked, live: Running) -> bool:
        return ranked.job.tenant == live.tenant or held.get(ranked.job.tenant, 0.0) <= held.get(live.tenant, 0.0)

    return may_take
