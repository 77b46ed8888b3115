"""Berth: CODA's arrays and shares joined with Hops' queue, window and solve (algorithms.md section 4).

DRF decides which tenant is next, the priority (latency ratio) which of its jobs, and the ILP where and on how many GPUs. With
one tenant and one array this is exactly Hops.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduler.fairness.priorities import PRIORITIES
from scheduler.parameters.choices import POLICIES
from scheduler.policies import arrays_and_windows
from scheduler.policies.mode import Mode

if TYPE_CHECKING:
    from scheduler.fairness.priorities import Priority
    from scheduler.parameters import Parameters
    from scheduler.placement.outcome import Outcome
    from scheduler.placement.work import Work


@dataclass(frozen=True, slots=True)
class Berth:
    name: str = "berth"
    meaning: str = POLICIES["berth"]
    replans: bool = True

    def priority(self, parameters: Parameters) -> Priority:
        return PRIORITIES[parameters.priority]

    def place(self, work: Work) -> Outcome:
        knobs = work.parameters
        mode = Mode(
            arrays=knobs.arrays == "on",
            fair=knobs.fair_shares == "on",
            borrow=knobs.borrowing == "on",
            joint=True,
            rigid=False,
            reserve_lr=knobs.reserve_lr,
            efficient=knobs.gain == "efficient",
            sweep=knobs.sweep == "on",
        )
        return arrays_and_windows.place(work, mode)


POLICY = Berth()
