"""A whole plan in numbers, and the columns over which one is searched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Container

    from scheduler.placement.aggregated.patterns import Pattern
    from scheduler.placement.aggregated.pricing import Problem
    from scheduler.placement.matrix import Matrix


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

    def without(self, types: Container[str], problem: Problem) -> Whole:
        """The part of the plan that is not on these GPU types."""
        supply, options = problem.supply, problem.options
        keep_row = np.array([name not in types for name in supply.types], dtype=bool)
        patterns = {
            pattern: times
            for pattern, times in self.patterns.items()
            if supply.classes[pattern.of_class].key.gpu_type not in types
        }
        moves = np.array([keep_row[move.source] for move in supply.moves], dtype=bool)
        kept = self.options * keep_row[options.row]
        return Whole(kept, self.moves * moves, patterns, float(options.value @ kept))

    def minus(self, other: Whole) -> Whole:
        """The rest of this plan beyond a part of it."""
        left = {pattern: times - other.patterns.get(pattern, 0) for pattern, times in self.patterns.items()}
        patterns = {pattern: times for pattern, times in left.items() if times}
        objective = self.objective - other.objective
        return Whole(self.options - other.options, self.moves - other.moves, patterns, objective)

    def plus(self, other: Whole) -> Whole:
        patterns = dict(self.patterns)
        for pattern, times in other.patterns.items():
            patterns[pattern] = patterns.get(pattern, 0) + times
        objective = self.objective + other.objective
        return Whole(self.options + other.options, self.moves + other.moves, patterns, objective)


@dataclass(slots=True)
class Kernel:
    """The columns in question, in this order: options, moves, patterns; and the program over them."""

    options: np.ndarray
    moves: np.ndarray
    patterns: list[Pattern]
    matrix: Matrix

    def plan_of(self, values: np.ndarray, problem: Problem) -> Whole | None:
        """The values as a plan; None when a row is broken: a solver's word is not taken for it."""
        if np.any(self.matrix.activity(values) > self.matrix.row_upper + 1e-6) or np.any(values < 0):
            return None
        plan = Whole.nothing(problem)
        counts = values.astype(int)
        plan.options[self.options] = counts[: len(self.options)]
        plan.moves[self.moves] = counts[len(self.options) : len(self.options) + len(self.moves)]
        times = counts[len(self.options) + len(self.moves) :]
        plan.patterns = {pattern: int(n) for pattern, n in zip(self.patterns, times, strict=True) if n}
        plan.objective = float(problem.options.value @ plan.options)
        return plan

    def values_of(self, plan: Whole) -> np.ndarray | None:
        """The plan as values of these columns; None when it uses others."""
        counts = np.array([plan.patterns.get(pattern, 0) for pattern in self.patterns])
        values = np.concatenate((plan.options[self.options], plan.moves[self.moves], counts)).astype(float)
        if any(np.any(part < 0) for part in (plan.options, plan.moves, counts)):
            return None
        used = plan.options.sum() + plan.moves.sum() + sum(plan.patterns.values())
        return values if values.sum() == used else None
