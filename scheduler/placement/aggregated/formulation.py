"""The placement problem aggregated by class of node (algorithms.md section 6), from a stage of the queue to a plan.

    max  sum over groups and candidates: w * G * x
    s.t. sum over a group's candidates: x <= jobs in the group
         per kind of piece: pieces used by candidates <= pieces offered by patterns
         per class: patterns <= nodes                         and quotas
Candidates, patterns, prices and the search are a file each; here they are put together under one time limit: a greedy
plan first, which is the optimum where everybody gets the best; else the bound and the columns, then whole plans, then
the nodes. Memory is checked when nodes are handed out; a failure adds a cut and searches again. Bounds are those of the
problem without cuts, so they hold for all plans.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from scheduler.parameters.knobs import SIGMA
from scheduler.placement.access import NO_RULES, Rules
from scheduler.placement.aggregated.candidates import Candidates, Group, candidates_by_class
from scheduler.placement.aggregated.classes import Classes
from scheduler.placement.aggregated.handout import hand_out
from scheduler.placement.aggregated.idle_columns import IdleColumns
from scheduler.placement.aggregated.kernel import search
from scheduler.placement.aggregated.making import Maker
from scheduler.placement.aggregated.memory import solved
from scheduler.placement.aggregated.own_speeds import own_speeds_of
from scheduler.placement.aggregated.pricing import Cap, Priced, Problem, guess, price
from scheduler.placement.solver import relative_gap

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scheduler.estimator.estimator import Estimator
    from scheduler.model import Configuration, Ranked
    from scheduler.placement.aggregated.plans import AggregatedPlan, IntegerPlan, Limits
    from scheduler.placement.ledger import Ledger
    from scheduler.placement.running import Participant

CANDIDATES_SHARE, PRICES_SHARE = 0.55, 0.75
"""Shares of the time given: candidates must be made by the first, the prices of the columns found by the second."""
LISTING_SHARE = 0.2
"""After this share of the rest, patterns are no longer listed but priced one by one."""
PROBLEM_PER_BUILD = 0.5
"""Stating the problem takes about this part of the time that making candidates took, and begins only when that is left."""
MEMORY_CUTS = 3
PRICE_TOLERANCE = 0.1
"""How near bound and master must come, as a share of the allowed gap; the search gets the rest."""


def solve_aggregated(
    stage: Sequence[Ranked],
    weight: Mapping[int, float],
    ledger: Ledger,
    estimator: Estimator,
    limits: Limits,
    *,
    sigma: float = SIGMA,
    rules: Rules = NO_RULES,
    participants: Mapping[int, Participant] = MappingProxyType({}),
) -> AggregatedPlan:
    """The stage's plan on the idle resources of the ledger, which is left as it is.

    `rules`: which job may use which resources. `participants`: running jobs of the stage, whose resources the ledger holds idle.
    """
    began_s = limits.clock()
    classes = Classes(
        ledger, stage, rules, participants, own_speeds_of(stage, weight, ledger, estimator, limits.own_speeds)
    )
    late = limits.until(CANDIDATES_SHARE, began_s)
    candidates = candidates_by_class(
        stage, weight, classes, ledger, estimator, sigma=sigma, late=lambda: late() <= 0, participants=participants
    )
    maker = Maker(classes, ledger, estimator, candidates, weight, rules, participants, limits.memory)
    plan = _best_plan(maker, limits, began_s)
    if plan.bound is None and candidates.groups:
        plan.bound = max(maker.simple_bound(), plan.objective)
    plan.left = maker.left
    return plan


def _best_plan(maker: Maker, limits: Limits, began_s: float) -> AggregatedPlan:
    """The greedy plan, or the best that was found beyond it."""
    plan = maker.greedy(limits, began_s)
    built_s = limits.clock()
    if maker.nobody_could_get_more(plan):
        plan.bound, plan.incumbent, plan.status = plan.objective, "ilp", "optimal"
    elif maker.good_enough(plan, limits.gap):
        plan.bound, plan.incumbent, plan.status = maker.simple_bound(), "ilp", "gap"
    elif limits.deadline_s - built_s > PROBLEM_PER_BUILD * (built_s - began_s) and maker.candidates.groups:
        plan = improved(maker, plan, limits, built_s)
    plan.build_s, plan.solve_s = built_s - began_s, limits.clock() - built_s
    return plan


def improved(maker: Maker, start: AggregatedPlan, limits: Limits, began_s: float) -> AggregatedPlan:
    """The best plan that prices and search find, or the start; with the bound."""
    listing_s = limits.until(LISTING_SHARE, began_s)
    problem = maker.problem(lambda: listing_s() <= 0)
    standing = maker.standing(problem)
    priced = _priced(maker, problem, standing, limits, began_s)
    if priced is None:
        return start
    maker.left = solved(maker.prices, priced, problem.supply, maker.candidates)
    remaining_s = limits.until(1.0, began_s)
    best, bound = start, min(priced.bound, maker.simple_bound())
    for _ in range(1 + MEMORY_CUTS):
        # Greedy columns are not the master's: the search starts from the last plan, in which all running jobs stay.
        found = search(problem, priced, standing, gap=limits.gap, remaining_s=remaining_s, seed=limits.seed)
        bound = min(bound, found.bound) if not problem.cut else bound
        seated = hand_out(found.plan, problem, lambda: IdleColumns(maker.classes, maker.ledger, maker.candidates))
        made = maker.valued(seated.placed)
        if made.objective >= best.objective - 1e-12:
            best, best.incumbent = made, "ilp"
        best.variables, best.constraints = found.variables, found.rows
        if not seated.homeless or remaining_s() <= 0 or maker.met(best, bound, limits.gap):
            break
        cuts = _cuts(maker.candidates, seated.homeless, seated.placed)
        problem.cut = True
        problem.caps += cuts
        # At a price of 0 for the cuts the bound is that of the problem without them.
        priced.prices = np.concatenate((priced.prices, np.zeros(len(cuts))))
    best.bound = max(bound, best.objective)
    best.status = _status(best, limits, stalled=found.stalled)
    return best


def _priced(maker: Maker, problem: Problem, standing: IntegerPlan, limits: Limits, began_s: float) -> Priced | None:
    return price(
        problem,
        remaining_s=limits.until(PRICES_SHARE, began_s),
        tolerance=max(PRICE_TOLERANCE * limits.gap, 1e-7),
        seed=limits.seed,
        start=[*standing.patterns, *maker.memory.patterns(problem.supply, maker.candidates)],
        first=None if maker.prices is None else guess(problem, maker.prices.pieces, maker.prices.quotas),
    )


def _status(best: AggregatedPlan, limits: Limits, *, stalled: bool) -> str:
    proven = relative_gap(best.objective, best.bound)
    if proven is None or proven > limits.gap + 1e-12:
        return "stalled" if stalled else "time-limit"
    return "gap" if proven else "optimal"


def _cuts(
    candidates: Candidates, homeless: Sequence[int], placed: Sequence[tuple[Ranked, Configuration, Group, int]]
) -> list[Cap]:
    """Allow, of the jobs that need as much memory as one without room, in its row, no more than found room."""
    cuts: list[Cap] = []
    memory = np.array([group.job.memory_mib for group in candidates.groups])[candidates.group]
    for row in sorted({int(candidates.row[number]) for number in homeless}):
        least = min(memory[number] for number in homeless if candidates.row[number] == row)
        own = np.flatnonzero((candidates.row == row) & (memory >= least))
        seated = sum(number in set(own.tolist()) for _, _, _, number in placed)
        cuts.append(Cap(own, np.ones(len(own)), float(seated)))
    return cuts
