"""Sia as Hops ran it (SoCC '24, 4.2, "Baseline Settings"): one configuration for each requirement, and Hops' queue.

Users choose requirements that Sia's powers of two may miss, so each of them is a configuration; and the queue is ordered by
latency ratio. That order decides between jobs that are worth the same to the program, and which job is placed first. Hops finds
(2.2, 4.3) that it does not change Sia otherwise, because every job of the queue enters the program alike.
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
class SiaHops:
    name: str = "sia-hops"
    meaning: str = "Sia with every requirement a configuration, and the queue by latency ratio"
    replans: bool = True

    def priority(self, parameters: Parameters) -> Priority:
        return PRIORITIES[parameters.priority]

    def place(self, work: Work) -> Outcome:
        return play(work, every_size=True)


POLICY = SiaHops()
