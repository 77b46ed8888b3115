"""The common steps of `coda` and `berth` (algorithms.md sections 4 and 7): arrays, windows, stages, giving back.

The steps: the windows of all GPU arrays are filled. Nodes are reserved for starving jobs at the head of a window. The fronts
are placed, then the backfills, each stage together by one ILP, or job by job. Greedy turns fill what a gap or a time limit
left open. A job that borrowers keep out of its own array calls back the fewest of them. The sweep offers idle resources to
every job. CPU jobs come last, in the order of their tenants' shares. In a re-plan running elastic jobs take part in the first
stage, and their resources count as idle for the windows and the solves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.copies import replace
from scheduler.fairness.cpu_queue import CpuTurns, place_cpu_queue
from scheduler.fairness.keeping import kept_from
from scheduler.fairness.sweep import NO_SWEEP, Sweep
from scheduler.placement import cpu
from scheduler.placement.joint import is_located
from scheduler.placement.outcome import DraftPlan, Obstacles, Outcome, Staged
from scheduler.policies.lineup import Lineup, Mode, line_up
from scheduler.policies.stages import (
    Basis,
    drop_reservations,
    first_stage,
    place_stages,
    pressing_of,
    reserve,
    settle,
    urgent_of,
)
from scheduler.replan.call_backs import call_back
from scheduler.replan.making_room import Rules, make_room
from scheduler.replan.participants import by_class
from scheduler.replan.realise import realise, replan_nearby

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scheduler.fairness.borrowing import AccessRules
    from scheduler.model import Ranked, Running, ShareView
    from scheduler.placement.free_capacity import Offer
    from scheduler.placement.ledger import Ledger
    from scheduler.placement.work import Work


def place(work: Work, mode: Mode) -> Outcome:
    """One planning's placing by these rules."""
    lineup = line_up(work, mode)
    windows, access_rules = lineup.windows, lineup.access_rules
    pressing = pressing_of(windows, lineup.work, mode)
    basis = Basis(windows, mode, access_rules, reserve(windows, lineup.work, mode, access_rules))
    draft = DraftPlan(objective=lineup.objective())
    rest, staged = _place_gpu_jobs(basis, lineup, draft)
    rules = Rules(_offers_beside(rest, access_rules), access_rules.factor, _taking(lineup.shares if mode.fair else ()))
    urgent = urgent_of(windows, pressing, work.now_s)
    make_room(urgent, rest, draft, rules)
    drop_reservations(access_rules, draft)
    reservations = tuple(each for each, _ in access_rules.reservations)
    turns, obstacles = _serve_the_rest(basis, lineup, rest, work, draft)
    return Outcome(
        draft,
        lineup.standings(turns, fair=mode.fair),
        replace(obstacles, out_of_time=staged.out_of_time | turns.out_of_time),
        staged.figures,
        reservations,
        left=staged.left,
        pressing=pressing,
        may_end_round=mode.joint,
    )


def _place_gpu_jobs(basis: Basis, lineup: Lineup, draft: DraftPlan) -> tuple[Work, Staged]:
    """Place the stages, in a re-plan together with running jobs. Returns the work of the later steps, and the stages' figures."""
    work, solving = lineup.work.with_least(), lineup.solving.with_least()
    if not work.participants:
        return work, _settle_stages(basis, work, draft, Staged())
    if is_located(work) or by_class(work):
        shared = _share_rules(solving, basis.access_rules)
        staged = _settle_stages(replace(basis, access_rules=shared), solving, draft, Staged())
        basis.access_rules.reservations = shared.reservations
        realise(work, draft)
        return work, staged
    front = first_stage(basis.windows, draft)
    near = replan_nearby(front, solving, work, draft, lambda near: _share_rules(near, basis.access_rules))
    work = replace(work, participants={})
    drop_reservations(basis.access_rules, draft)
    return work, _settle_stages(basis, work, draft, near)


def _settle_stages(basis: Basis, work: Work, draft: DraftPlan, before: Staged) -> Staged:
    staged = place_stages(basis, work, draft, before)
    topped_up = settle(basis.windows, work, basis.access_rules, draft)
    return replace(staged, figures=replace(staged.figures, topped_up=topped_up))


def _serve_the_rest(
    basis: Basis, lineup: Lineup, rest: Work, whole: Work, draft: DraftPlan
) -> tuple[CpuTurns, Obstacles]:
    """After the GPU jobs' stages: owners call back, then the sweep and the CPU jobs take idle resources."""
    mode, access_rules, windows = basis.mode, basis.access_rules, basis.windows
    access_rules.refresh()
    kept = {} if mode.sweep else kept_from(windows.picked, rest, access_rules, draft)
    if mode.borrow and mode.arrays:
        call_back(windows.by_array, rest, access_rules, lineup.division, draft, replans=mode.joint)
    sweep = (
        Sweep(lineup.gpu_queue, windows.picked, whole, access_rules, draft, draft.candidates, fair=mode.fair)
        if mode.sweep
        else NO_SWEEP
    )
    of_cpu = bool(lineup.cpu_queue)
    sweep.start(cpu.LIMIT_SHARE * of_cpu, cpu.WALKS * of_cpu)
    turns = place_cpu_queue(
        lineup.cpu_queue, whole, draft, access_rules, lineup.division, fair=mode.fair, borrow=mode.borrow
    )
    sweep.finish()
    return turns, Obstacles(unswept=sweep.unswept, kept={**kept, **turns.kept, **sweep.kept})


def _share_rules(solving: Work, access_rules: AccessRules) -> AccessRules:
    """The access rules for the resources that participants and waiting jobs share."""
    others = [live for live in solving.state.running if live.job not in solving.participants]
    shared = access_rules.on(solving.ledger, others)
    waiting = (each.job for each in solving.queue if not each.job.is_cpu)
    shared.limit([*(each.job for each in solving.participants.values()), *waiting])
    return shared


def _offers_beside(work: Work, access_rules: AccessRules) -> Callable[[Ranked, Ledger], Sequence[Offer]]:
    """The resources that a running job may use, on a ledger where its own count as idle."""

    def offers(ranked: Ranked, ledger: Ledger) -> Sequence[Offer]:
        return access_rules.on(ledger, [live for live in work.state.running if live.job != ranked.job.id]).offers(
            ranked
        )

    return offers


def _taking(shares: Sequence[ShareView]) -> Callable[[Ranked, Running], bool]:
    """Say which running jobs make room for an urgent one: its own tenant's, and those of tenants that hold no less."""
    held = {each.tenant: each.held / each.weight for each in shares}

    def may_take(ranked: Ranked, live: Running) -> bool:
        return ranked.job.tenant == live.tenant or held.get(ranked.job.tenant, 0.0) <= held.get(live.tenant, 0.0)

    return may_take
