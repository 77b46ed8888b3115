"""CODA (IPDPS, V-C): arrays, DRF between tenants and FIFO within one, rigid jobs, greedy placement, call-backs.

Every GPU job asks for its smallest size alone. At its turn it is placed in its own array, or else on what it may borrow. There
are no reservations and no joint solve. CODA's tuning of cores and its contention eliminator are modules of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.parameters.choices import POLICIES
from scheduler.policies import arrays_and_windows
from scheduler.policies.mode import Mode
from scheduler.policies.policy import Policy, always

if TYPE_CHECKING:
    from scheduler.placement.outcome import Outcome
    from scheduler.placement.work import Work

MODE = Mode(arrays=True, fair=True, borrow=True, joint=False, rigid=True, reserve_lr=None)


def place(work: Work) -> Outcome:
    return arrays_and_windows.place(work, MODE)


POLICY = Policy("coda", POLICIES["coda"], place, is_fair=always)
