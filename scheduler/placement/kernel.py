"""Whole plans of the aggregated formulation: a mixed-integer program over the columns that prices leave in question.

A column whose reduced cost is below -t cannot be in a plan better than bound - t, so the *kernel*, the columns above
-t, is solved first, and widened while the gap is larger than allowed and time is left. Where every pattern is listed,
the kernel's own bound and bound - t together bound all plans, so the optimum is proven on a part of the columns.
A long queue is solved in two steps: what the relaxation takes whole is fixed as far as the whole patterns carry it, and
only the rest is searched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scheduler.placement.solver import relative_gap, solve_matrix

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduler.placement.matrix import Matrix
    from scheduler.placement.patterns import Pattern
    from scheduler.placement.pricing import Priced, Problem

import os
FIX_ABOVE_GROUPS, FIX_ABOVE_GROUPS_PRICED = 600, 50
KERNEL_PER_GROUP = float(os.environ.get("KPG","4"))
WIDEN = 4.0
TRIES = 6


@dataclass(slots=True)
class Whole:
    """A plan in numbers: how often each option (of all), move and pattern is taken; its objective."""

    options: np.ndarray
    moves: np.ndarray
    patterns: dict[Pattern, int]
    objective: float

    @classmethod
    def nothing(cls, problem: Problem) -> Whole:
        return cls(np.zeros(len(problem.options.group), int), np.zeros(len(problem.supply.moves), int), {}, 0.0)

    def plus(self, other: Whole) -> Whole:
        patterns = dict(self.patterns)
        for pattern, times in other.patterns.items():
            patterns[pattern] = patterns.get(pattern, 0) + times
        objective = self.objective + other.objective
        return Whole(self.options + other.options, self.moves + other.moves, patterns, objective)


@dataclass(slots=True)
class Searched:
    """The best plan found, the proven bound and what it cost."""

    plan: Whole
    bound: float
    variables: int = 0
    rows: int = 0


@dataclass(slots=True)
class _Reduced:
    """Reduced costs at the bound's prices, all <= 0: of every option, move and pattern of the master."""

    options: np.ndarray
    moves: np.ndarray
    patterns: np.ndarray

    def within(self, slack: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        parts = (self.options, self.moves, self.patterns)
        return (np.flatnonzero(parts[0] >= -slack), np.flatnonzero(parts[1] >= -slack), parts[2] >= -slack)


def search(
    problem: Problem, priced: Priced, start: Whole, *, gap: float, remaining_s: Callable[[], float], seed: int
) -> Searched:
    """The best whole plan within the time, at least as good as `start`."""
    reduced = _reduced(problem, priced)
    found = Searched(start, priced.bound)
    if len(problem.members) > (FIX_ABOVE_GROUPS if problem.complete else FIX_ABOVE_GROUPS_PRICED):
        fixed, upper = _fixed(problem, priced)
        _widening(problem, priced, reduced, found, fixed, upper, gap=gap, remaining_s=remaining_s, seed=seed)
    if (relative_gap(found.plan.objective, found.bound) or 0.0) > gap or found.plan.objective <= 0:
        nothing = Whole.nothing(problem)
        upper = problem.row_upper
        _widening(problem, priced, reduced, found, nothing, upper, gap=gap, remaining_s=remaining_s, seed=seed)
    return found


def _reduced(problem: Problem, priced: Priced) -> _Reduced:
    prices, first = priced.prices, problem.first_row
    options = problem.surplus(prices) - prices[problem.options.group]
    ends = np.array([(move.source, move.target) for move in problem.supply.moves], dtype=int).reshape(-1, 2)
    moves = prices[first + ends[:, 1]] - prices[first + ends[:, 0]]
    patterns = np.array(
        [
            sum(times * prices[first + row] for row, times in pattern.pieces)
            - prices[problem.first_class + pattern.of_class]
            for pattern in priced.patterns
        ]
    )
    return _Reduced(options, np.zeros(0) if problem.complete else moves, patterns)


def _widening(  # noqa: PLR0913 - the search's whole state, in one place
    problem: Problem,
    priced: Priced,
    reduced: _Reduced,
    found: Searched,
    fixed: Whole,
    upper: np.ndarray,
    *,
    gap: float,
    remaining_s: Callable[[], float],
    seed: int,
) -> None:
    """Kernel after kernel until the gap is met, everything was inside or time is up; `found` holds the best."""
    whole = fixed.objective == 0.0
    slack = _first_slack(reduced, problem, fixed)
    for _ in range(TRIES):
        most = priced.bound - found.plan.objective
        slack = min(slack, max(most, 0.0) + 1e-9) if found.plan.objective > 0 else slack
        matrix, parts = _kernel(problem, priced, reduced, slack, upper, fixed)
        left_s = remaining_s()
        if left_s <= 0 or not matrix.columns:
            return
        start = _as_columns(found.plan, parts, priced) if whole else None
        values, bound = solve_matrix(
            matrix,
            gap=gap / 2,
            time_limit_s=left_s if slack > most else 0.6 * left_s,
            seed=seed,
            start=start,
            enough=priced.bound / (1 + gap) - fixed.objective,
        )
        print("   mip", matrix.columns, [len(p) for p in parts], "slack", slack, "left", left_s, remaining_s(), "fixed", fixed.objective, "val", None if values is None else float(matrix.cost@values), bound)
        found.variables, found.rows = max(found.variables, matrix.columns), len(matrix.row_upper)
        plan = None if values is None else _plan_of(values, matrix, parts, priced, problem, upper)
        if plan is not None and (made := fixed.plus(plan)).objective > found.plan.objective:
            found.plan = made
        if whole and problem.complete and bound is not None:
            found.bound = min(found.bound, max(bound, priced.bound - slack, found.plan.objective))
        proven = relative_gap(found.plan.objective, found.bound)
        if (proven is not None and proven <= gap) or slack > most:
            return
        slack *= WIDEN


def _first_slack(reduced: _Reduced, problem: Problem, fixed: Whole) -> float:
    """The slack that lets about `KERNEL_PER_GROUP` options a group in."""
    free = reduced.options[_free_options(problem, fixed)]
    count = int(KERNEL_PER_GROUP * len(np.unique(problem.options.group[_free_options(problem, fixed)])))
    if count >= len(free):
        return float("inf")
    return max(1e-9, -float(np.partition(free, len(free) - count)[len(free) - count]))


def _free_options(problem: Problem, fixed: Whole) -> np.ndarray:
    taken = np.bincount(problem.options.group, weights=fixed.options, minlength=len(problem.members))
    return (problem.members - taken)[problem.options.group] > 0


_Parts = tuple[np.ndarray, np.ndarray, np.ndarray]


def _kernel(
    problem: Problem, priced: Priced, reduced: _Reduced, slack: float, upper: np.ndarray, fixed: Whole
) -> tuple[Matrix, _Parts]:
    options, moves, inside = reduced.within(slack)
    options = options[_free_options(problem, fixed)[options]]
    patterns = np.flatnonzero(inside)
    matrix = problem.option_columns(options)
    supply = problem.supply_columns([priced.patterns[k] for k in patterns], moves=not problem.complete)
    skipped = 0 if problem.complete else len(problem.supply.moves)
    chosen = np.concatenate((moves, skipped + np.arange(len(patterns)))).astype(int)
    return matrix.beside(supply.only(chosen), upper), (options, moves, patterns)


def _as_columns(plan: Whole, parts: _Parts, priced: Priced) -> np.ndarray | None:
    """The plan as values of the kernel's columns; None when it uses others."""
    options, moves, patterns = parts
    counts = np.array([plan.patterns.get(priced.patterns[k], 0) for k in patterns])
    values = np.concatenate((plan.options[options], plan.moves[moves] if len(moves) else np.zeros(0), counts))
    used = plan.options.sum() + plan.moves.sum() + sum(plan.patterns.values())
    return values.astype(float) if values.sum() == used else None


def _plan_of(
    values: np.ndarray, matrix: Matrix, parts: _Parts, priced: Priced, problem: Problem, upper: np.ndarray
) -> Whole | None:
    """The values as a plan; None when a row is broken: a solver's word is not taken for it."""
    if np.any(matrix.activity(values) > upper + 1e-6) or np.any(values < 0):
        return None
    options, moves, patterns = parts
    plan = Whole.nothing(problem)
    counts = values.astype(int)
    plan.options[options] = counts[: len(options)]
    plan.moves[moves] = counts[len(options) : len(options) + len(moves)]
    times = counts[len(options) + len(moves) :]
    plan.patterns = {priced.patterns[k]: int(n) for k, n in zip(patterns, times, strict=True) if n}
    plan.objective = float(problem.options.value @ plan.options)
    return plan


def _fixed(problem: Problem, priced: Priced) -> tuple[Whole, np.ndarray]:
    """What the relaxation takes whole, as far as its whole patterns and moves carry it; and what the rows have left."""
    count, moved = len(priced.options), 0 if problem.complete else len(problem.supply.moves)
    values = np.floor(priced.values + 1e-6)
    plan = Whole.nothing(problem)
    patterns = values[count + moved :].astype(int)
    plan.patterns = {pattern: int(n) for pattern, n in zip(priced.patterns, patterns, strict=True) if n}
    offered = np.zeros(len(problem.options.rows))
    for pattern, times in plan.patterns.items():
        for row, pieces in pattern.pieces:
            offered[row] += times * pieces
    for k in np.flatnonzero(values[count : count + moved]):
        move = problem.supply.moves[k]
        plan.moves[k] = times = int(min(values[count + k], offered[move.source]))
        offered[move.source] -= times
        offered[move.target] += times
    _seat(problem, priced.options[values[:count] > 0], values[:count][values[:count] > 0], offered, plan)
    plan.objective = float(problem.options.value @ plan.options)
    return plan, _left(problem, plan, offered)


def _seat(problem: Problem, options: np.ndarray, times: np.ndarray, offered: np.ndarray, plan: Whole) -> None:
    order = np.argsort(-problem.options.value[options] / problem.options.need[options], kind="stable")
    for option, wanted in zip(options[order], times[order], strict=True):
        row, need = problem.options.row[option], problem.options.need[option]
        taken = int(min(wanted, offered[row] // need))
        plan.options[option] = taken
        offered[row] -= taken * need


def _left(problem: Problem, plan: Whole, offered: np.ndarray) -> np.ndarray:
    upper = problem.row_upper.copy()
    upper[: problem.first_row] -= np.bincount(
        problem.options.group, weights=plan.options, minlength=len(problem.members)
    )
    upper[problem.first_row : problem.first_class] = offered
    for pattern, times in plan.patterns.items():
        upper[problem.first_class + pattern.of_class] -= times
    for row, cap in enumerate(problem.caps, start=problem.first_cap):
        upper[row] -= float(cap.weights @ plan.options[cap.options])
    return upper
