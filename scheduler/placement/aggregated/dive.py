"""Rounding by diving: fix the whole values of a relaxation, round the patterns that are nearly whole, relax the rest again.

Each step fixes whole patterns, rounds up those that are taken for the most part, seats the jobs they carry, and hands the rest -
jobs, nodes, free pieces - to the next relaxation. The last rest is small enough to search.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scheduler.placement.matrix import Relaxation

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduler.placement.aggregated.plans import IntegerPlan, Kernel
    from scheduler.placement.aggregated.pricing import Problem

ROUND_UP_FROM = (0.5, 0.7, 0.9, 0.6)
"""From this value on a pattern or job counts as taken: one dive each until a plan is good enough."""
STEPS = 12
FEW_GROUPS, FEW_GROUPS_LISTED = 150, 20
"""Jobs left over that a search settles sooner than further steps would; where all patterns are listed steps are cheap."""


@dataclass(slots=True)
class Dive:
    """The fixed part so far, the pieces it leaves free per row, and the rows' rest."""

    problem: Problem
    plan: IntegerPlan
    offered: np.ndarray
    upper: np.ndarray

    @classmethod
    def from_top(cls, problem: Problem, nothing: IntegerPlan) -> Dive:
        return cls(problem, nothing, np.zeros(len(problem.candidates.rows)), problem.row_upper.copy())

    @classmethod
    def after(cls, problem: Problem, plan: IntegerPlan) -> Dive:
        """The rest, as if the plan had been fixed."""
        offered = np.zeros(len(problem.candidates.rows))
        for pattern, times in plan.patterns.items():
            for row, pieces in pattern.pieces:
                offered[row] += times * pieces
        for move, times in zip(problem.moves, plan.moves, strict=True):
            offered[move.source] -= times
            offered[move.target] += times
        np.subtract.at(offered, problem.candidates.row, problem.candidates.need * plan.candidates)
        made = cls(problem, plan, offered, problem.row_upper)
        made._take_stock()
        return made

    def fix(self, kernel: Kernel, values: np.ndarray, least: float) -> int:
        """Fix what the values of the kernel's columns say, rounding up from `least` on; how many patterns and jobs."""
        count, moved = len(kernel.candidates), len(kernel.moves)
        before = int(self.plan.candidates.sum()) + sum(self.plan.patterns.values())
        self._cut(kernel, values[count + moved :], least)
        for k, value in zip(kernel.moves, values[count : count + moved], strict=True):
            self._move(int(k), value)
        self._seat(kernel.candidates, values[:count], least)
        self._take_stock()
        return int(self.plan.candidates.sum()) + sum(self.plan.patterns.values()) - before

    def _cut(self, kernel: Kernel, values: np.ndarray, least: float) -> None:
        """Cut nodes into patterns: the whole ones, then the nearest to one more, as far as there are nodes."""
        nodes = self.upper[self.problem.first_class : self.problem.first_cap].copy()
        whole = np.floor(values + 1e-6)
        part = values - whole
        order = [k for k in np.argsort(-part, kind="stable") if part[k] >= least]
        chosen = [(k, int(whole[k])) for k in np.flatnonzero(whole)] + [(k, 1) for k in order]
        for k, times in chosen:
            pattern = kernel.patterns[k]
            taken = int(min(times, nodes[pattern.of_class]))
            if taken > 0:
                nodes[pattern.of_class] -= taken
                self.plan.patterns[pattern] = self.plan.patterns.get(pattern, 0) + taken
                for row, pieces in pattern.pieces:
                    self.offered[row] += taken * pieces

    def _move(self, k: int, value: float) -> None:
        move = self.problem.supply.moves[k]
        times = int(min(np.floor(value + 0.5), self.offered[move.source]))
        if times > 0:
            self.plan.moves[k] += times
            self.offered[move.source] -= times
            self.offered[move.target] += times

    def _seat(self, candidates: np.ndarray, values: np.ndarray, least: float) -> None:
        """Seat jobs onto the pieces: those taken whole first, then by value."""
        problem = self.problem
        per_piece = problem.candidates.value[candidates] / problem.candidates.need[candidates]
        room = self.upper.copy()
        for k in np.lexsort((-per_piece, -np.round(values, 6))):
            if values[k] < least:
                break
            candidate = candidates[k]
            row, need, group = (
                problem.candidates.row[candidate],
                problem.candidates.need[candidate],
                problem.candidates.group[candidate],
            )
            wanted = max(1.0, np.floor(values[k] + 1e-6))
            taken = int(min(wanted, self.offered[row] // need, room[group], self._capped(candidate, room)))
            if taken > 0:
                self.plan.candidates[candidate] += taken
                self.offered[row] -= taken * need
                room[group] -= taken
                for number, cap in enumerate(problem.caps, start=problem.first_cap):
                    room[number] -= taken * cap.weight_of(candidate)

    def _capped(self, candidate: int, room: np.ndarray) -> float:
        """How many more of the candidate the caps admit."""
        most = np.inf
        for number, cap in enumerate(self.problem.caps, start=self.problem.first_cap):
            if (weight := cap.weight_of(candidate)) > 0:
                most = min(most, room[number] // weight)
        return most

    def _take_stock(self) -> None:
        problem, plan = self.problem, self.plan
        self.upper = problem.row_upper.copy()
        members = len(problem.members)
        self.upper[:members] -= np.bincount(problem.candidates.group, weights=plan.candidates, minlength=members)
        self.upper[problem.first_row : problem.first_class] = self.offered
        for pattern, times in plan.patterns.items():
            self.upper[problem.first_class + pattern.of_class] -= times
        for row, cap in enumerate(problem.caps, start=problem.first_cap):
            self.upper[row] -= float(cap.weights @ plan.candidates[cap.candidates])
        plan.objective = float(problem.candidates.value @ plan.candidates)


def dive(
    top: Dive,
    kernel: Kernel,
    values: np.ndarray,
    narrowed: Callable[[Dive], Kernel],
    least: float,
    *,
    few: int = FEW_GROUPS,
    remaining_s: Callable[[], float],
    seed: int,
) -> bool:
    """Fix step by step from a relaxation's values on, until few jobs or no nodes are left, or time is up.

    Whether anything was rounded: if not, another `least` would lead to the same.
    """
    top.fix(kernel, values, 1.0)
    for step in range(STEPS):
        kernel = narrowed(top)
        classes = slice(top.problem.first_class, top.problem.first_cap)
        free = len(np.unique(top.problem.candidates.group[kernel.candidates]))
        if remaining_s() <= 0 or free <= few or not top.upper[classes].any():
            return step > 0
        solution = Relaxation(kernel.matrix, seed).solve(remaining_s())
        if not solution.optimal:
            return True
        if not any(top.fix(kernel, solution.values, share) for share in (least, least / 2)):
            return True
    return True
