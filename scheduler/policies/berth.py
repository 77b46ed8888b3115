"""Berth: CODA's arrays and shares joined with Hops' queue, window and solve (algorithms.md section 4).

DRF decides which tenant is next, the priority (latency ratio) which of its jobs, and the ILP where and on how many GPUs. With
one tenant and one array this is exactly Hops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.fairness.priorities import latency_ratio_as_known
from scheduler.parameters.choices import POLICIES
from scheduler.policies import arrays_and_windows
from scheduler.policies.lineup import Mode
from scheduler.policies.policy import Policy, by_knob

if TYPE_CHECKING:
    from scheduler.fairness.priorities import Priority
    from scheduler.parameters import Parameters
    from scheduler.placement.outcome import Outcome
    from scheduler.placement.work import Work


def place(work: Work) -> Outcome:
    knobs = work.parameters
    mode = Mode(
        arrays=knobs.arrays == "on",
        fair=is_fair(knobs),
        borrow=knobs.borrowing == "on",
        joint=True,
        rigid=False,
        reserve_lr=knobs.reserve_lr,
        efficient=pays(knobs),
        sweep=sweeps(knobs),
        doubts=True,
    )
    return arrays_and_windows.place(work, mode)


def priority(parameters: Parameters) -> Priority:
    return latency_ratio_as_known if parameters.priority == "lrf" else by_knob(parameters)


def is_fair(parameters: Parameters) -> bool:
    return parameters.fair_shares == "on"


def sweeps(parameters: Parameters) -> bool:
    return parameters.sweep == "on"


def pays(parameters: Parameters) -> bool:
    return parameters.gain == "efficient"


POLICY = Policy("berth", POLICIES["berth"], place, priority, replans=True, is_fair=is_fair, sweeps=sweeps, pays=pays)
