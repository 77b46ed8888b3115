"""What a planning hands to a policy."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from scheduler.placement.memory import NOTHING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.random import Generator

    from scheduler.estimator.estimator import Estimator
    from scheduler.model import Clock, ClusterState, Job, Ranked
    from scheduler.parameters import Parameters
    from scheduler.placement.ledger import Ledger
    from scheduler.placement.memory import Memory
    from scheduler.placement.running import Participant


PLACING_LEAST = 0.1
"""Of the limit, what is left for placing even if checking, ordering and windows used it up: on a starved core nothing would
be placed, planning after planning. Better late by that than never."""


def taken_as_sound(_job: Job) -> None:
    """Of drivers whose running jobs were looked at when they came."""


@dataclass(frozen=True, slots=True)
class Work:
    """One planning's input to a policy: the eligible queue in order, what is idle, and the means."""

    queue: Sequence[Ranked]
    ledger: Ledger
    estimator: Estimator
    parameters: Parameters
    rng: Generator
    clock: Clock
    deadline_s: float  # on `clock`
    state: ClusterState  # the snapshot, for what runs, weights and history; what is idle is the ledger's to say
    now_s: float  # the snapshot's time
    participants: Mapping[int, Participant] = field(default_factory=dict)  # running jobs that this re-plan may change
    left_out: Mapping[int, Participant] = field(
        default_factory=dict
    )  # others that it may, on what is idle: see `better`
    replan: bool = False
    memory: Memory = NOTHING  # what the last planning left
    check: Callable[[Job], None] = taken_as_sound  # InvalidJob unless a running job can be planned with as described

    @property
    def remaining_s(self) -> float:
        return self.deadline_s - self.clock()

    def with_least(self) -> Work:
        """The same with `PLACING_LEAST` of the limit left, if what went before has used more."""
        return replace(self, deadline_s=max(self.deadline_s, self.clock() + PLACING_LEAST * self.parameters.limit_s))

    def before(self, share: float) -> Work:
        """The same for the steps before one that has so much of the limit to itself."""
        return replace(self, deadline_s=self.deadline_s - share * self.parameters.limit_s)

    def ends_s(self, share: float) -> float:
        """When that step ends, on `clock`, if it begins now: it has its time however late those before it were."""
        return max(self.deadline_s, self.clock() + share * self.parameters.limit_s)

    @property
    def changeable(self) -> Mapping[int, Participant]:
        """All running jobs that this re-plan may change."""
        return {**self.participants, **self.left_out} if self.left_out else self.participants

    @property
    def adjusts_sensitivity(self) -> bool:
        """Between re-plans, unless the operator has it off."""
        return not self.replan and self.parameters.sensitivity_adjustment == "on"
