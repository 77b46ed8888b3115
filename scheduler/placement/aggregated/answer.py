"""The limits and the answer of a solve by class of node."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scheduler.placement.aggregated.memory import Solved

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduler.model import Configuration, Ranked
    from scheduler.placement.aggregated.classes import Classes
    from scheduler.placement.aggregated.options import Options


@dataclass(slots=True)
class Placed:
    """One job's part of a plan: G is its throughput over the least of its options, `value` its part of the objective."""

    ranked: Ranked
    configuration: Configuration
    gain: float
    value: float
    options: int


@dataclass(slots=True)
class Aggregated:
    """A plan with its figures. `bound` is None when options were left out for want of time, or no price was found."""

    placed: list[Placed]
    options: Options
    classes: Classes
    objective: float = 0.0
    bound: float | None = None
    incumbent: str = "greedy"
    status: str = "time-limit"
    candidates: int = 0
    variables: int = 0
    constraints: int = 0
    build_s: float = 0.0
    solve_s: float = 0.0
    left: Solved = field(default_factory=Solved)  # to the next planning


@dataclass(frozen=True, slots=True)
class Limits:
    """When to be back (on the clock), at which relative gap to stop, the solver's seed, and the memory of an earlier solve."""

    clock: Callable[[], float]
    deadline_s: float
    gap: float
    seed: int
    memory: Solved = field(default_factory=Solved)

    @property
    def left_s(self) -> float:
        return self.deadline_s - self.clock()

    def until(self, share: float, began_s: float) -> Callable[[], float]:
        """Seconds left until that share of the time is used."""
        end_s = began_s + share * (self.deadline_s - began_s)
        return lambda: end_s - self.clock()
