"""CODA (IPDPS, V-C): arrays, DRF between tenants and FIFO within one, rigid jobs, greedy placement, call-backs.

Every GPU job asks for its smallest size alone. At its turn it is placed in its own array, or else on what it may borrow. There
are no reservations and no joint solve. CODA's tuning of cores and its contention eliminator are modules of their own.
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

MODE = Mode(arrays=True, fair=True, borrow=True, joint=False, rigid=True, reserve_lr=None)


@dataclass(frozen=True, slots=True)
class Coda:
    name: str = "coda"
    meaning: str = POLICIES["coda"]
    replans: bool = False

    def priority(self, parameters: Parameters) -> Priority:
        return PRIORITIES["fifo"]

    def place(self, work: Work) -> Outcome:
        return arrays_and_windows.place(work, MODE)


POLICY = Coda()
