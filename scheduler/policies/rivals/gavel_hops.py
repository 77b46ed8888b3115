"""Gavel as Hops ran it (SoCC '24, 4.2, "Baseline Settings"): each job's median requirement as rigid, and Hops' queue.

Gavel has no elastic jobs, so the median of the requirements that users accept stands for them; and the queue is ordered by
latency ratio. That order decides between jobs with the same claim to the round. Hops finds (4.3) that it changes Gavel no
further, because Gavel's claims are fractions of time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduler.fairness.priorities import PRIORITIES
from scheduler.policies.rivals.gavel import choose
from scheduler.policies.rivals.timeshare.play import play

if TYPE_CHECKING:
    from scheduler.fairness.priorities import Priority
    from scheduler.parameters import Parameters
    from scheduler.placement.outcome import Outcome
    from scheduler.placement.work import Work


@dataclass(frozen=True, slots=True)
class GavelHops:
    name: str = "gavel-hops"
    meaning: str = "Gavel with each job's median requirement, and the queue by latency ratio"
    replans: bool = True

    def priority(self, parameters: Parameters) -> Priority:
        return PRIORITIES[parameters.priority]

    def place(self, work: Work) -> Outcome:
        return play(work, choose)


POLICY = GavelHops()
