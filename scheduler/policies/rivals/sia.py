"""Sia (SOSP '23): rounds in which goodput is shared out by GPU type, with one integer program over all jobs.

Each round every job is given one of its configurations, or none (3.3, 3.4: `typelevel.configurations`, `typelevel.program`),
and the placer finds the nodes (3.5: `typelevel.placer`). Its rounds are of 60 s: `replan_s` 60. The queue's order, first
come first served, decides between equals alone, for Sia has no queue.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduler.fairness.priorities import PRIORITIES
from scheduler.policies.rivals.typelevel.round import play

if TYPE_CHECKING:
    from scheduler.fairness.priorities import Priority
    from scheduler.parameters import Parameters
    from scheduler.placement.outcome import Outcome
    from scheduler.placement.work import Work


@dataclass(frozen=True, slots=True)
class Sia:
    name: str = "sia"
    meaning: str = "goodput by GPU type in rounds: one integer program over all jobs, then a placer"
    replans: bool = True

    def priority(self, parameters: Parameters) -> Priority:
        return PRIORITIES["fifo"]

    def place(self, work: Work) -> Outcome:
        return play(work, every_size=False)


POLICY = Sia()
