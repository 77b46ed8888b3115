"""The decisions of a planning so far: starts, stops, promises, and jobs that cannot be planned."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scheduler.errors import InvalidJob
    from scheduler.model import Chosen, Promised, StopOrder


@dataclass(slots=True)
class Answers:
    """The plan while it is made. Each step adds to it, so that whatever stands here when time is up is the plan."""

    chosen: dict[int, Chosen] = field(default_factory=dict)  # job id -> the configuration with which it starts
    stops: list[StopOrder] = field(default_factory=list)
    promises: list[Promised] = field(default_factory=list)  # given by this planning
    invalid: dict[int, InvalidJob] = field(default_factory=dict)  # job id -> what a step found wrong with it

    def has(self, job: int) -> bool:
        """Whether the job is placed, promised a place, or cannot be planned."""
        if job in self.chosen or job in self.invalid:
            return True
        return bool(self.promises) and any(given.job == job for given in self.promises)
