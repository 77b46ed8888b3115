"""Fronts and backfills placed, jointly or in order, and topped up (algorithms.md sections 4 and 6)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from scheduler.errors import InvalidJob
from scheduler.model import Chosen, SolverFigures
from scheduler.placement import configurations, turn
from scheduler.placement.greedy import best_fit
from scheduler.placement.joint import place_jointly, together
from scheduler.policies.reserving import drop_reservations
from scheduler.replan.realise import spare_owners, tidy
from scheduler.rules import TOPPING_UP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.fairness.borrowing import AccessRules
    from scheduler.fairness.progressive import Windows
    from scheduler.model import Configuration, Ranked
    from scheduler.placement.feasibility import Offer
    from scheduler.placement.work import Outcome, Work
    from scheduler.policies.mode import Mode


FRONT_TIME_SHARE = 0.6
"""Of the time left, what the first of two stages may use."""


def _stages(windows: Windows, outcome: Outcome) -> list[list[Ranked]]:
    """The fronts and the backfills, each in the order of picking; without those who have their answer."""
    place_in_order = {each.job.id: position for position, each in enumerate(windows.picked, start=1)}
    front = [
        each for window in windows.by_array.values() for each in window.front if not outcome.has_answer(each.job.id)
    ]
    backfill = [
        each for window in windows.by_array.values() for each in window.backfill if not outcome.has_answer(each.job.id)
    ]
    return [
        sorted((replace(each, rank=place_in_order[each.job.id]) for each in stage), key=lambda each: each.rank)
        for stage in (front, backfill)
        if stage
    ]


def first_stage(windows: Windows, outcome: Outcome) -> list[Ranked]:
    return [each for stage in _stages(windows, outcome)[:1] for each in stage]


def place_stages(windows: Windows, work: Work, mode: Mode, access_rules: AccessRules, outcome: Outcome) -> None:
    stages = _stages(windows, outcome)
    if work.participants:
        running = [each.ranked for each in work.participants.values()]
        stages = [running + (stages[0] if stages else []), *stages[1:]]
    figures: list[SolverFigures] = [outcome.solver]
    for position, stage in enumerate(stages):
        access_rules.refresh()
        if not mode.joint:
            _in_order(stage, work, access_rules, outcome)
            continue
        last = position == len(stages) - 1
        until_s = work.deadline_s if last else work.clock() + FRONT_TIME_SHARE * work.remaining_s
        outcome.solver = SolverFigures()
        own = work if not position else replace(work, participants={})
        place_jointly(stage, own if last else replace(own, deadline_s=until_s), outcome, access_rules=access_rules)
        figures.append(outcome.solver)
        tidy(own, outcome)
    spare_owners(work, outcome, access_rules.is_borrowed)
    if mode.joint:
        outcome.solver = together(figures)
    elif outcome.chosen:
        outcome.solver = SolverFigures(incumbent="greedy")


def _in_order(stage: Sequence[Ranked], work: Work, access_rules: AccessRules, outcome: Outcome) -> None:
    for position, ranked in enumerate(stage):
        if work.remaining_s <= 0:
            outcome.out_of_time.update(late.job.id for late in stage[position:])
            return
        _take_turn(ranked, work, access_rules, outcome)


def settle(windows: Windows, work: Work, access_rules: AccessRules, outcome: Outcome) -> None:
    """Top up what the stages left."""
    drop_reservations(access_rules, outcome)
    access_rules.refresh()
    if TOPPING_UP in work.parameters.off:
        return
    topped_up = 0
    failed: set[tuple[object, ...]] = (
        set()
    )  # what is idle only shrinks: where one found nothing, its like finds nothing
    promised = {given.job for given in outcome.promises}
    most = turn.most_on_a_node(work.ledger)
    for ranked in windows.picked:
        job = ranked.job
        if work.remaining_s <= 0:
            break
        if job.id in outcome.chosen or job.id in outcome.invalid or job.id in promised:
            continue
        if not turn.may_fit(job, most, work):
            continue
        kind = (turn.shape(job), access_rules.access(ranked))
        if kind in failed:
            continue
        if _take_turn(ranked, work, access_rules, outcome):
            topped_up += 1
            most = turn.most_on_a_node(work.ledger)
        else:
            failed.add(kind)
    outcome.solver = replace(outcome.solver, topped_up=topped_up)


def _take_turn(ranked: Ranked, work: Work, access_rules: AccessRules, outcome: Outcome) -> bool:
    """Place one job on its own array, else on what it may borrow."""
    job = ranked.job
    found: tuple[Configuration, ...] = ()
    for home_only in (True, False):
        found = _generated(ranked, access_rules.offers(ranked, home_only=home_only), work, outcome)
        best = best_fit(found, work.ledger, job.tenant)
        if best is not None:
            gain = outcome.gain_of(best, found)
            placement = work.ledger.take(best, job.tenant)
            weight = outcome.weights.get(job.id, 1.0)
            outcome.chosen[job.id] = Chosen(best, placement, gain, weight, len(found))
            outcome.candidates.setdefault(job.id, found)
            access_rules.refresh()
            return True
    outcome.candidates.setdefault(job.id, found)
    return False


def _generated(ranked: Ranked, offers: Sequence[Offer], work: Work, outcome: Outcome) -> tuple[Configuration, ...]:
    try:
        return configurations.generate_on(ranked.job, offers, work.ledger, work.estimator, sigma=work.parameters.sigma)
    except InvalidJob as error:
        outcome.invalid[ranked.job.id] = error
        return ()
