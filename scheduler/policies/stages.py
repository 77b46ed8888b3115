"""Fronts and backfills placed, jointly or in order, and topped up (algorithms.md sections 4 and 6).

Jobs at the head of a window may have nodes reserved for them, or be urgent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduler.copies import replace
from scheduler.errors import InvalidJob
from scheduler.fairness.reservation import soonest, starving, waited_for
from scheduler.model import Configuration, Ranked, Reservation, SolverFigures
from scheduler.placement import configurations, turn
from scheduler.placement.joint import all_of, is_located, place_jointly
from scheduler.placement.turn import best_fit
from scheduler.replan import early
from scheduler.replan.realise import spare_owners, tidy
from scheduler.rules import RESERVATIONS, TOPPING_UP, URGENT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from scheduler.fairness.borrowing import AccessRules
    from scheduler.fairness.progressive import Windows
    from scheduler.placement.free_capacity import Offer
    from scheduler.placement.outcome import DraftPlan, Staged
    from scheduler.placement.work import Work
    from scheduler.policies.lineup import Mode


def reserve(windows: Windows, work: Work, mode: Mode, access_rules: AccessRules) -> frozenset[int]:
    """Reserve nodes for the starving first job of each array. Stopping attempts are left out: their resources are promised.

    A job that fits now needs no reservation if the solver can be made to place it, so that the others may use the rest.
    The ids of these jobs are returned.
    """
    now_s, running = work.now_s, [live for live in work.state.running if not live.stopping]
    kept: list[Reservation] = []
    must_start: set[int] = set()
    reserve_lr = None if RESERVATIONS in work.parameters.off else mode.reserve_lr
    for window in windows.by_array.values():
        ranked = starving(window.picked, reserve_lr)
        if ranked is None:
            continue
        offers = list(access_rules.offers(ranked, home_only=True))
        found = soonest(work.tied(ranked.job), offers, waited_for(ranked, running), work.ledger.largest, now_s)
        if found is None:
            continue
        # Only the located formulation can be made to place a job. Under a quota two such jobs could contradict each other.
        free = ranked.job.tenant not in work.ledger.allowances
        quiet = free or (not must_start and work.ledger.over_quota(ranked.job) is None)
        if found.until_s <= now_s and mode.joint and is_located(work) and quiet:
            must_start.add(ranked.job.id)
        else:
            kept.append(found)
    access_rules.reservations = [(each, now_s) for each in kept]
    return frozenset(must_start)


def drop_reservations(access_rules: AccessRules, draft: DraftPlan) -> None:
    """Drop the reservations of jobs that have their answer."""
    access_rules.reservations = [(each, now_s) for each, now_s in access_rules.reservations if not draft.has(each.job)]


def pressing_of(windows: Windows, work: Work, mode: Mode) -> dict[int, float]:
    """For the first jobs of each window: job id -> from when on it is urgent. {} where no job ever is."""
    pressing: dict[int, float] = {}
    if mode.reserve_lr is None or not mode.joint or URGENT in work.parameters.off:
        return pressing
    for window in windows.by_array.values():
        pressing |= early.pressing(window.picked, mode.reserve_lr, work.state.replanned_s, work.now_s)
    return pressing


def urgent_of(windows: Windows, pressing: Mapping[int, float], now_s: float) -> list[Ranked]:
    """The jobs of all arrays that are urgent now, in the order of picking."""
    return [each for each in windows.picked if pressing.get(each.job.id, math.inf) <= now_s]


FRONT_TIME_SHARE = 0.6
"""The part of the time left that the first of two stages may use."""


@dataclass(frozen=True, slots=True)
class Basis:
    """The rules of the stages. `must_start`: job ids that the solver has to place."""

    windows: Windows
    mode: Mode
    access_rules: AccessRules
    must_start: AbstractSet[int] = frozenset()


def _stages(windows: Windows, draft: DraftPlan) -> list[list[Ranked]]:
    """The fronts and the backfills, each in the order of picking, without jobs that have their answer."""
    place_in_order = {each.job.id: position for position, each in enumerate(windows.picked, start=1)}
    front = [each for window in windows.by_array.values() for each in window.front if not draft.has(each.job.id)]
    backfill = [each for window in windows.by_array.values() for each in window.backfill if not draft.has(each.job.id)]
    return [
        sorted((replace(each, rank=place_in_order[each.job.id]) for each in stage), key=lambda each: each.rank)
        for stage in (front, backfill)
        if stage
    ]


def first_stage(windows: Windows, draft: DraftPlan) -> list[Ranked]:
    return [each for stage in _stages(windows, draft)[:1] for each in stage]


def place_stages(basis: Basis, work: Work, draft: DraftPlan, before: Staged) -> Staged:
    """Place the fronts, then the backfills. `before`: the figures of an earlier joint solve, which the answer includes."""
    stages = _stages(basis.windows, draft)
    if work.participants:
        running = [each.ranked for each in work.participants.values()]
        stages = [running + (stages[0] if stages else []), *stages[1:]]
    place_all = _place_jointly if basis.mode.joint else _place_in_order
    staged = place_all(stages, basis, work, draft, before)
    spare_owners(work, draft, basis.access_rules.is_borrowed)
    if not basis.mode.joint and draft.chosen:
        return replace(staged, figures=SolverFigures(incumbent="greedy"))
    return staged


def _place_jointly(
    stages: Sequence[Sequence[Ranked]],
    basis: Basis,
    work: Work,
    draft: DraftPlan,
    before: Staged,
) -> Staged:
    """Place each stage by one solve. Running jobs take part in the first, which leaves time for the second."""
    done = [before]
    for position, stage in enumerate(stages):
        basis.access_rules.refresh()
        last = position == len(stages) - 1
        until_s = work.deadline_s if last else work.clock() + FRONT_TIME_SHARE * work.remaining_s
        own = work if not position else replace(work, participants={})
        done.append(
            place_jointly(
                stage,
                own if last else replace(own, deadline_s=until_s),
                draft,
                access_rules=basis.access_rules,
                must_start=basis.must_start,
                solved=sum(len(each.left) for each in done),
            )
        )
        tidy(own, draft)
    return all_of(done)


def _place_in_order(
    stages: Sequence[Sequence[Ranked]],
    basis: Basis,
    work: Work,
    draft: DraftPlan,
    before: Staged,
) -> Staged:
    """Place the stages job by job, and note the jobs whose turn did not come in time."""
    late: set[int] = set()
    for stage in stages:
        basis.access_rules.refresh()
        for position, ranked in enumerate(stage):
            if work.remaining_s <= 0:
                late.update(each.job.id for each in stage[position:])
                break
            _take_turn(ranked, work, basis.access_rules, draft)
    return replace(before, out_of_time=before.out_of_time | late)


def settle(windows: Windows, work: Work, access_rules: AccessRules, draft: DraftPlan) -> int:
    """Give jobs of the windows the GPUs that the stages left idle. Returns how many jobs found a place."""
    drop_reservations(access_rules, draft)
    access_rules.refresh()
    if TOPPING_UP in work.parameters.off:
        return 0
    topped_up = 0
    failed = set[tuple[object, ...]]()  # kinds of jobs that found nothing: idle resources only shrink
    promised = {given.job for given in draft.promises}
    most = turn.most_on_a_node(work.ledger)
    for ranked in windows.picked:
        job = ranked.job
        if work.remaining_s <= 0:
            break
        if job.id in draft.chosen or job.id in draft.invalid or job.id in promised:
            continue
        if not turn.may_fit(job, most, work):
            continue
        kind = (turn.shape(job), access_rules.access(ranked))
        if kind in failed:
            continue
        if _take_turn(ranked, work, access_rules, draft):
            topped_up += 1
            most = turn.most_on_a_node(work.ledger)
        else:
            failed.add(kind)
    return topped_up


def _take_turn(ranked: Ranked, work: Work, access_rules: AccessRules, draft: DraftPlan) -> bool:
    """Place one job on its own array, else on what it may borrow."""
    job = ranked.job
    found: tuple[Configuration, ...] = ()
    for home_only in (True, False):
        found = _generate(ranked, access_rules.offers(ranked, home_only=home_only), work, draft)
        best = best_fit(found, work.ledger, job.tenant)
        if best is not None:
            draft.chosen[job.id] = draft.objective.chosen(best, work.ledger.take(best, job.tenant), found)
            draft.candidates.setdefault(job.id, found)
            access_rules.refresh()
            return True
    draft.candidates.setdefault(job.id, found)
    return False


def _generate(ranked: Ranked, offers: Sequence[Offer], work: Work, draft: DraftPlan) -> tuple[Configuration, ...]:
    try:
        return configurations.generate_on(ranked.job, offers, work.ledger, work.estimator, sigma=work.parameters.sigma)
    except InvalidJob as error:
        draft.invalid[ranked.job.id] = error
        return ()
