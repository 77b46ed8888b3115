"""The placement problem aggregated by class of node (algorithms.md section 6), from a stage of the queue to a plan.

    max  sum over groups and options: w * G * x
    s.t. sum over a group's options: x <= jobs in the group
         per kind of piece: pieces used by options <= pieces offered by patterns
         per class: patterns <= nodes                         and quotas
Options, patterns, prices and the search are a file each; here they are put together under one time limit: a greedy
plan first, which is the optimum where everybody gets the best; else the bound and the columns, then whole plans, then
the nodes. Memory is checked when nodes are handed out; a failure adds a cut and searches again. Bounds are those of the
problem without cuts, so they hold for all plans.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from scheduler.parameters.knobs import SIGMA
from scheduler.placement.access import NO_RULES
from scheduler.placement.aggregated.classes import Classes
from scheduler.placement.aggregated.handout import hand_out
from scheduler.placement.aggregated.idle_columns import IdleColumns
from scheduler.placement.aggregated.kernel import search
from scheduler.placement.aggregated.making import Maker
from scheduler.placement.aggregated.memory import solved
from scheduler.placement.aggregated.options import options_of
from scheduler.placement.aggregated.pricing import Cap, guess, price
from scheduler.placement.solver import relative_gap

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scheduler.estimator.estimator import Estimator
    from scheduler.model import Configuration, Ranked
    from scheduler.placement.access import Rules
    from scheduler.placement.aggregated.answer import Aggregated, Limits
    from scheduler.placement.aggregated.options import Group, Options
    from scheduler.placement.aggregated.pricing import Priced, Problem
    from scheduler.placement.aggregated.whole import Whole
    from scheduler.placement.ledger import Ledger
    from scheduler.placement.running import Participant

OPTIONS_SHARE, PRICES_SHARE = 0.55, 0.75
"""Shares of the time given: options must be made by the first, the prices of the columns found by the second."""
LISTING_SHARE = 0.2
"""After this share of the rest, patterns are no longer listed but priced one by one."""
PROBLEM_PER_BUILD = 0.5
"""Stating the problem takes about this part of the time that making options took, and begins only when that is left."""
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
) -> Aggregated:
    """The stage's plan on the idle resources of the ledger, which is left as it is.

    `rules`: which job may use which resources. `participants`: running jobs of the stage, whose resources the ledger holds idle.
    """
    began_s = limits.clock()
    classes = Classes(ledger, stage, rules, participants)
    late = limits.until(OPTIONS_SHARE, began_s)
    options = options_of(
        stage, weight, classes, ledger, estimator, sigma=sigma, late=lambda: late() <= 0, participants=participants
    )
    maker = Maker(classes, ledger, estimator, options, weight, rules, participants, limits.memory)
    answer = _answered(maker, limits, began_s)
    if answer.bound is None and options.groups:
        answer.bound = max(maker.simple_bound(), answer.objective)
    answer.left = maker.left
    answer.candidates = sum(len(group.options) * len(group.members) for group in options.groups)
    return answer


def _answered(maker: Maker, limits: Limits, began_s: float) -> Aggregated:
    """The greedy plan, or the best that was found beyond it."""
    answer = maker.greedy(limits, began_s)
    built_s = limits.clock()
    if maker.nobody_could_get_more(answer):
        answer.bound, answer.incumbent, answer.status = answer.objective, "ilp", "optimal"
    elif maker.good_enough(answer, limits.gap):
        answer.bound, answer.incumbent, answer.status = maker.simple_bound(), "ilp", "gap"
    elif limits.deadline_s - built_s > PROBLEM_PER_BUILD * (built_s - began_s) and maker.options.groups:
        answer = improved(maker, answer, limits, built_s)
    answer.build_s, answer.solve_s = built_s - began_s, limits.clock() - built_s
    return answer


def improved(maker: Maker, start: Aggregated, limits: Limits, began_s: float) -> Aggregated:
    """The best plan that prices and search find, or the start; with the bound."""
    listing_s = limits.until(LISTING_SHARE, began_s)
    problem = maker.problem(lambda: listing_s() <= 0)
    standing = maker.standing(problem)
    priced = _priced(maker, problem, standing, limits, began_s)
    if priced is None:
        return start
    maker.left = solved(maker.prices, priced, problem.supply, maker.options)
    remaining_s = limits.until(1.0, began_s)
    best, bound = start, min(priced.bound, maker.simple_bound())
    for _ in range(1 + MEMORY_CUTS):
        # Greedy columns are not the master's: the search starts from the last plan, in which all running jobs stay.
        found = search(problem, priced, standing, gap=limits.gap, remaining_s=remaining_s, seed=limits.seed)
        bound = min(bound, found.bound) if not problem.cut else bound
        seated = hand_out(found.plan, problem, lambda: IdleColumns(maker.classes, maker.ledger, maker.options))
        made = maker.valued(seated.placed)
        if made.objective >= best.objective - 1e-12:
            best, best.incumbent = made, "ilp"
        best.variables, best.constraints = found.variables, found.rows
        if not seated.homeless or remaining_s() <= 0 or maker.met(best, bound, limits.gap):
            break
        cuts = _cuts(maker.options, seated.homeless, seated.placed)
        problem.cut = True
        problem.caps += cuts
        # At a price of 0 for the cuts the bound is that of the problem without them.
        priced.prices = np.concatenate((priced.prices, np.zeros(len(cuts))))
    best.bound = max(bound, best.objective)
    best.status = _status(best, limits, stalled=found.stalled)
    return best


def _priced(maker: Maker, problem: Problem, standing: Whole, limits: Limits, began_s: float) -> Priced | None:
    return price(
        problem,
        remaining_s=limits.until(PRICES_SHARE, began_s),
        tolerance=max(PRICE_TOLERANCE * limits.gap, 1e-7),
        seed=limits.seed,
        start=[*standing.patterns, *maker.memory.patterns(problem.supply, maker.options)],
        first=None if maker.prices is None else guess(problem, maker.prices.pieces, maker.prices.quotas),
    )


def _status(best: Aggregated, limits: Limits, *, stalled: bool) -> str:
    proven = relative_gap(best.objective, best.bound)
    if proven is None or proven > limits.gap + 1e-12:
        return "stalled" if stalled else "time-limit"
    return "gap" if proven else "optimal"


def _cuts(
    options: Options, homeless: Sequence[int], placed: Sequence[tuple[Ranked, Configuration, Group, int]]
) -> list[Cap]:
    """Allow, of the jobs that need as much memory as one without room, in its row, no more than found room."""
    cuts: list[Cap] = []
    memory = np.array([group.job.memory_mib for group in options.groups])[options.group]
    for row in sorted({int(options.row[number]) for number in homeless}):
        least = min(memory[number] for number in homeless if options.row[number] == row)
        own = np.flatnonzero((options.row == row) & (memory >= least))
        seated = sum(number in set(own.tolist()) for _, _, _, number in placed)
        cuts.append(Cap(own, np.ones(len(own)), float(seated)))
    return cuts
