"""The plans of the aggregated formulation, as configurations or as whole numbers by column; the limits of a solve."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from scheduler.parameters.knobs import OWN_SPEEDS
from scheduler.placement.aggregated.memory import Solved

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from scheduler.model import Configuration, Ranked
    from scheduler.placement.aggregated.candidates import Candidates
    from scheduler.placement.aggregated.classes import Classes
    from scheduler.placement.aggregated.patterns import Pattern
    from scheduler.placement.aggregated.pricing import Problem
    from scheduler.placement.matrix import Matrix


@dataclass(slots=True)
class Placed:
    """One job's part of a plan: G is its throughput over the least of its candidates, `value` its part of the objective."""

    ranked: Ranked
    configuration: Configuration
    gain: float
    value: float
    candidates: int  # how many it had


@dataclass(slots=True)
class AggregatedPlan:
    """A plan with its figures. `bound` is None when candidates were left out for want of time, or no price was found."""

    placed: list[Placed]
    candidates: Candidates
    classes: Classes
    objective: float = 0.0
    bound: float | None = None
    incumbent: str = "greedy"
    status: str = "time-limit"
    variables: int = 0
    constraints: int = 0
    build_s: float = 0.0
    solve_s: float = 0.0
    left: Solved = field(default_factory=Solved)  # to the next planning


@dataclass(frozen=True, slots=True)
class Limits:
    """When to be back (on the clock), at which relative gap to stop, the solver's seed, the memory of an earlier solve, and how
    many groups of nodes may be kept apart by jobs' own speeds.
    """

    clock: Callable[[], float]
    deadline_s: float
    gap: float
    seed: int
    memory: Solved = field(default_factory=Solved)
    own_speeds: int = OWN_SPEEDS

    @property
    def left_s(self) -> float:
        return self.deadline_s - self.clock()

    def until(self, share: float, began_s: float) -> Callable[[], float]:
        """Seconds left until that share of the time is used."""
        end_s = began_s + share * (self.deadline_s - began_s)
        return lambda: end_s - self.clock()


@dataclass(slots=True)
class IntegerPlan:
    """A plan in numbers: how often each candidate (of all), move and pattern is taken; its objective."""

    candidates: np.ndarray
    moves: np.ndarray
    patterns: dict[Pattern, int]
    objective: float

    @classmethod
    def nothing(cls, problem: Problem) -> IntegerPlan:
        return cls(np.zeros(len(problem.candidates.group), int), np.zeros(len(problem.supply.moves), int), {}, 0.0)

    def without(self, types: Container[str], problem: Problem) -> IntegerPlan:
        """The part of the plan that is not on these GPU types."""
        supply, candidates = problem.supply, problem.candidates
        keep_row = np.array([name not in types for name in supply.types], dtype=bool)
        patterns = {
            pattern: times
            for pattern, times in self.patterns.items()
            if supply.classes[pattern.of_class].key.gpu_type not in types
        }
        moves = np.array([keep_row[move.source] for move in supply.moves], dtype=bool)
        kept = self.candidates * keep_row[candidates.row]
        return IntegerPlan(kept, self.moves * moves, patterns, float(candidates.value @ kept))

    def minus(self, other: IntegerPlan) -> IntegerPlan:
        """The rest of this plan beyond a part of it."""
        left = {pattern: times - other.patterns.get(pattern, 0) for pattern, times in self.patterns.items()}
        patterns = {pattern: times for pattern, times in left.items() if times}
        objective = self.objective - other.objective
        return IntegerPlan(self.candidates - other.candidates, self.moves - other.moves, patterns, objective)

    def plus(self, other: IntegerPlan) -> IntegerPlan:
        patterns = dict(self.patterns)
        for pattern, times in other.patterns.items():
            patterns[pattern] = patterns.get(pattern, 0) + times
        objective = self.objective + other.objective
        return IntegerPlan(self.candidates + other.candidates, self.moves + other.moves, patterns, objective)


@dataclass(slots=True)
class Kernel:
    """The columns in question, in this order: candidates, moves, patterns; and the program over them."""

    candidates: np.ndarray
    moves: np.ndarray
    patterns: list[Pattern]
    matrix: Matrix

    def plan_of(self, values: np.ndarray, problem: Problem) -> IntegerPlan | None:
        """The values as a plan; None when a row is broken: a solver's word is not taken for it."""
        if np.any(self.matrix.activity(values) > self.matrix.row_upper + 1e-6) or np.any(values < 0):
            return None
        plan = IntegerPlan.nothing(problem)
        counts = values.astype(int)
        plan.candidates[self.candidates] = counts[: len(self.candidates)]
        plan.moves[self.moves] = counts[len(self.candidates) : len(self.candidates) + len(self.moves)]
        times = counts[len(self.candidates) + len(self.moves) :]
        plan.patterns = {pattern: int(n) for pattern, n in zip(self.patterns, times, strict=True) if n}
        plan.objective = float(problem.candidates.value @ plan.candidates)
        return plan

    def values_of(self, plan: IntegerPlan) -> np.ndarray | None:
        """The plan as values of these columns; None when it uses others."""
        counts = np.array([plan.patterns.get(pattern, 0) for pattern in self.patterns])
        values = np.concatenate((plan.candidates[self.candidates], plan.moves[self.moves], counts)).astype(float)
        if any(np.any(part < 0) for part in (plan.candidates, plan.moves, counts)):
            return None
        used = plan.candidates.sum() + plan.moves.sum() + sum(plan.patterns.values())
        return values if values.sum() == used else None
