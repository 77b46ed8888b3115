"""Whole plans of the aggregated formulation: a mixed-integer program over the columns that prices leave in question.

A column whose reduced cost is below -t cannot be in a plan better than bound - t, so the *kernel*, the columns above
-t, is solved first, and widened while the gap is larger than allowed and time is left. Where every pattern is listed,
the kernel's own bound and bound - t together bound all plans, so the optimum is proven on a part of the columns.
A long queue is dived into first (see `dive`), and only what that leaves is searched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scheduler.placement.aggregated.dive import FEW_GROUPS, FEW_GROUPS_LISTED, ROUND_UP_FROM, Dive, dive
from scheduler.placement.aggregated.plans import IntegerPlan, Kernel
from scheduler.placement.matrix import Relaxation, solve_matrix
from scheduler.placement.solver import relative_gap

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduler.placement.aggregated.pricing import Priced, Problem

DIVE_ABOVE_GROUPS = 50
"""More groups than this are dived into before they are searched."""
KERNEL_PER_GROUP, KERNEL_AFTER_DIVE = 4, 2
ALWAYS_PER_GROUP = 4
"""Every kernel holds this number of each group's nearest candidates: weights differ, so one slack does not suit all."""
REPAIRS = 12
OF_GAP_WHOLE, OF_GAP_PART = 0.98, 0.25
"""Shares of the allowed gap, where a program may end. Over all columns its bound is the proof, so nearly at the gap itself. Over
a part its plan counts, and one that ended at half of the gap was often a hair short.
"""
FEW_NODES = 24
"""Types are freed until they have this number of nodes; twice as many in the second round of types, and so on."""
SURE_COLUMNS, OVERRUN_S = 300, 0.5
"""HiGHS looks at its limit between rounds of cuts only: larger programs were seen half a second late."""
HOPEFUL = 0.9
"""A share of the bound: a dive whose fixed part and relaxed rest stay below it ends, and the plan is repaired instead."""
WIDEN = 4.0
TRIES = 6
WORTH_GOING_ON = 0.05
"""A step that lessens the gap by a smaller part of itself counts as no progress."""
PATIENCE, PATIENCE_WHOLE = 5, 2
"""Programs in a row without progress after which the repairs end, and the search over all columns: then it *stalls*."""
LOOKS, LOOKS_BY_COLUMNS = 100, 250_000
"""Looks of the solver without progress, and such looks over the program's columns, after which it ends."""


@dataclass(slots=True)
class Searched:
    """The best plan found, the proven bound and the size of the largest program solved for it."""

    plan: IntegerPlan
    bound: float
    variables: int = 0
    rows: int = 0
    stalled: bool = False

    @property
    def open(self) -> float:
        """The most that the plan may lack of the best."""
        return self.bound - self.plan.objective


def search(
    problem: Problem, priced: Priced, start: IntegerPlan, *, gap: float, remaining_s: Callable[[], float], seed: int
) -> Searched:
    """The best whole plan within the time, at least as good as `start`."""
    found = Searched(start, priced.bound)
    run = _Search(problem, priced, found, gap, remaining_s, seed)
    # With no time to search, dives are all there is.
    short = remaining_s() < 2 * OVERRUN_S
    for least in ROUND_UP_FROM if short or len(problem.members) > DIVE_ABOVE_GROUPS else ():
        before = found.open
        rounded = not run.met() and remaining_s() > 0 and run.dive(least)
        run.repair()
        if not rounded or not _lessened(before, found.open):
            break
    if not run.met():
        run.widening(Dive.from_top(problem, IntegerPlan.nothing(problem)))
    return found


def _lessened(before: float, after: float) -> bool:
    return after < (1.0 - WORTH_GOING_ON) * before


class _Search:
    def __init__(
        self,
        problem: Problem,
        priced: Priced,
        found: Searched,
        gap: float,
        remaining_s: Callable[[], float],
        seed: int,
    ) -> None:
        self.problem, self.priced, self.found = problem, priced, found
        self.gap, self.remaining_s, self.seed = gap, remaining_s, seed
        self._searched, self._asked = found.plan, set[tuple[bytes, ...]]()
        prices, first = priced.prices, problem.first_row
        # Reduced costs at the bound's prices, all <= 0: of every candidate, move and pattern of the master.
        self._candidates = problem.surplus(prices) - prices[problem.candidates.group]
        order = np.lexsort((-self._candidates, problem.candidates.group))
        place = np.arange(len(order)) - np.searchsorted(
            problem.candidates.group[order], problem.candidates.group[order]
        )
        self._near = np.zeros(len(order), dtype=bool)
        self._near[order] = place < ALWAYS_PER_GROUP
        ends = np.array([(move.source, move.target) for move in problem.moves], dtype=int).reshape(-1, 2)
        self._moves = prices[first + ends[:, 1]] - prices[first + ends[:, 0]]
        self._patterns = np.array([problem.reduced_cost(pattern, prices) for pattern in priced.patterns])

    def met(self) -> bool:
        proven = relative_gap(self.found.plan.objective, self.found.bound)
        return proven is not None and proven <= self.gap

    def dive(self, least: float) -> bool:
        """Dive from the prices' own solution, then search what is left; whether anything was rounded on the way."""
        problem, priced = self.problem, self.priced
        top = Dive.from_top(problem, IntegerPlan.nothing(problem))
        moves = np.arange(len(problem.moves))
        whole = Kernel(priced.candidates, moves, priced.patterns, problem.candidate_columns(priced.candidates))
        few = 0 if self.remaining_s() < 2 * OVERRUN_S else FEW_GROUPS_LISTED if problem.complete else FEW_GROUPS
        rounded = dive(
            top, whole, priced.values, self._narrowed, least, few=few, remaining_s=self.remaining_s, seed=self.seed
        )
        if top.plan.objective > self.found.plan.objective:
            self.found.plan = top.plan
        if self._may_do(top):
            self.widening(top)
        return rounded

    def _may_do(self, top: Dive) -> bool:
        """Whether what was fixed and the relaxation of the rest come near the bound; else a search would be for nothing."""
        rest = self._narrowed(top)
        if not rest.matrix.columns:
            return True
        solution = Relaxation(rest.matrix, self.seed).solve(max(0.0, self.remaining_s()))
        return not solution.optimal or top.plan.objective + solution.objective >= HOPEFUL * self.priced.bound

    def repair(self) -> None:
        """Free the plan on one GPU type after the other, the one that loses most first, and search it anew.

        A type's loss: the price of its nodes, less the value of the jobs there beyond their own prices.
        """
        fruitless = 0
        for attempt in range(REPAIRS):
            if self.met() or self.remaining_s() <= 0 or not self.found.plan.candidates.any() or fruitless >= PATIENCE:
                return
            before = self.found.open
            losses = self._losses()
            types = sorted(losses, key=lambda name: (-losses[name], name))
            first, wider = attempt % len(types), attempt // len(types)
            freed = {types[first]}
            for further in range(1, len(types)):
                classes = self.problem.supply.classes
                if sum(len(each.nodes) for each in classes if each.key.gpu_type in freed) >= FEW_NODES * (1 + wider):
                    break
                freed.add(types[(first + further) % len(types)])
            kept = self.found.plan.without(freed, self.problem)
            self.widening(Dive.after(self.problem, kept), wider=2.0 ** (1 + wider))
            fruitless = 0 if _lessened(before, self.found.open) else fruitless + 1

    def _losses(self) -> dict[str, float]:
        problem, prices = self.problem, self.priced.prices
        losses: dict[str, float] = {}
        for k, each in enumerate(problem.supply.classes):
            paid = float(problem.nodes[k] * prices[problem.first_class + k])
            losses[each.key.gpu_type] = losses.get(each.key.gpu_type, 0.0) + paid
        for candidate in np.flatnonzero(self.found.plan.candidates):
            own = float(problem.candidates.value[candidate] - prices[problem.candidates.group[candidate]])
            losses[problem.supply.types[problem.candidates.row[candidate]]] -= own * int(
                self.found.plan.candidates[candidate]
            )
        return losses

    def _narrowed(self, top: Dive) -> Kernel:
        return self._kernel(top, self._first_slack(top))

    def widening(self, top: Dive, wider: float = 1.0) -> None:
        """Kernel after kernel until the gap is met, everything was inside, it stalls or time is up; `found` holds the best."""
        whole = not top.plan.candidates.any()
        slack = wider * self._first_slack(top)
        fruitless = 0
        for attempt in range(TRIES if whole else 1):
            most = self.priced.bound - self.found.plan.objective
            if whole:  # many columns may cost nothing: with any first slack, the last kernel holds every column
                slack = max(slack, most / WIDEN ** (TRIES - 2 - attempt))
            slack = min(slack, max(most, 0.0) + 1e-9) if self.found.plan.objective > 0 else slack
            kernel = self._kernel(top, slack)
            left_s = self.remaining_s()
            if kernel.matrix.columns > SURE_COLUMNS:
                left_s -= OVERRUN_S
            if left_s <= 0 or not kernel.matrix.columns:
                return
            if not self._is_new(kernel):
                slack *= WIDEN
                continue
            before = self.found.open
            self._solve(kernel, top, slack, left_s if slack > most else 0.6 * left_s)
            fruitless = 0 if _lessened(before, self.found.open) else fruitless + 1
            if self.met() or slack > most or fruitless >= PATIENCE_WHOLE:
                break
            slack *= WIDEN
        self.found.stalled = whole  # unless its gap is met; when time ended it never came here

    def _solve(self, kernel: Kernel, top: Dive, slack: float, limit_s: float) -> None:
        """Search this kernel, and note what that brings: a better plan, a better bound."""
        problem, priced, found, fixed = self.problem, self.priced, self.found, top.plan
        share = OF_GAP_PART if fixed.candidates.any() else OF_GAP_WHOLE
        values, bound = solve_matrix(
            kernel.matrix,
            gap=share * self.gap * max(1.0, priced.bound / max(priced.bound - fixed.objective, 1e-9)),
            time_limit_s=limit_s,
            seed=self.seed,
            start=kernel.values_of(found.plan.minus(fixed)),
            enough=priced.bound / (1 + self.gap) - fixed.objective,
            patience=max(LOOKS, LOOKS_BY_COLUMNS // kernel.matrix.columns),
            proving=problem.complete,
        )
        found.variables, found.rows = max(found.variables, kernel.matrix.columns), len(top.upper)
        plan = None if values is None else kernel.plan_of(values, problem)
        if plan is not None and (made := fixed.plus(plan)).objective > found.plan.objective:
            found.plan = made
        if not fixed.candidates.any() and problem.complete and bound is not None:
            found.bound = min(found.bound, max(bound, priced.bound - slack, found.plan.objective))

    def _is_new(self, kernel: Kernel) -> bool:
        """Whether this very program, from this very plan, was not searched before: the result would be the same."""
        if self._searched is not self.found.plan:
            self._searched, self._asked = self.found.plan, set()
        matrix = kernel.matrix
        question = tuple(each.tobytes() for each in (matrix.cost, matrix.row_upper, matrix.starts, matrix.index))
        if question in self._asked:
            return False
        self._asked.add(question)
        return True

    def _first_slack(self, top: Dive) -> float:
        """The slack that lets a few candidates a group in."""
        free = self._free(top)
        groups = len(np.unique(self.problem.candidates.group[free]))
        count = groups * (
            KERNEL_AFTER_DIVE if top.plan.candidates.any() and not self.problem.complete else KERNEL_PER_GROUP
        )
        own = self._candidates[free]
        if count >= len(own):
            return float("inf")
        return max(1e-9, -float(np.partition(own, len(own) - count)[len(own) - count]))

    def _free(self, top: Dive) -> np.ndarray:
        free: np.ndarray = top.upper[: self.problem.first_row][self.problem.candidates.group] > 0
        return free

    def _kernel(self, top: Dive, slack: float) -> Kernel:
        candidates = np.flatnonzero(((self._candidates >= -slack) | self._near) & self._free(top))
        moves = np.flatnonzero(self._moves >= -slack)
        nodes = top.upper[self.problem.first_class : self.problem.first_cap]
        patterns = [
            pattern
            for pattern, reduced in zip(self.priced.patterns, self._patterns, strict=True)
            if reduced >= -slack and nodes[pattern.of_class] > 0
        ]
        supply = self.problem.supply_columns(patterns, moves)
        return Kernel(candidates, moves, patterns, self.problem.candidate_columns(candidates).beside(supply, top.upper))
