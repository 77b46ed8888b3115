"""The input of a policy."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from scheduler.copies import replace
from scheduler.placement.aggregated.memory import Solved

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from numpy.random import Generator

    from scheduler.estimator.estimator import Estimator
    from scheduler.model import Clock, ClusterState, Job, Ranked
    from scheduler.parameters import Parameters
    from scheduler.placement.ledger import Ledger
    from scheduler.placement.running import Participant


PLACING_LEAST = 0.1
"""The part of the limit that placing has in any case, even if checking, ordering and the windows used it all. Otherwise a very
slow machine would never place anything."""


@dataclass(frozen=True, slots=True)
class Memory:
    """The stages' memory, in the order of their solving; and the jobs that were found sound while these GPU types were known.

    If such a job is the very same object, only `wait_s` is checked again.
    """

    stages: Sequence[Solved] = ()
    sound: Mapping[int, Job] = field(default_factory=lambda: MappingProxyType({}))
    types: AbstractSet[str] = frozenset()

    def of(self, stage: int) -> Solved:
        return self.stages[stage] if stage < len(self.stages) else Solved()


NOTHING = Memory()


def taken_as_sound(_job: Job) -> None:
    """Stands for the check of a running job where the driver has checked the jobs before."""


def untied(job: Job) -> Job:
    """Stands for the tie of a job to nodes that stay open for long enough, where no node closes."""
    return job


@dataclass(frozen=True, slots=True)
class Work:
    """The input of a policy: the eligible queue in order, the idle resources, the estimator, the knobs and the time."""

    queue: Sequence[Ranked]
    ledger: Ledger
    estimator: Estimator
    parameters: Parameters
    rng: Generator
    clock: Clock
    deadline_s: float  # on `clock`
    state: ClusterState  # the snapshot: running jobs, weights, history. The ledger says what is idle
    now_s: float  # the snapshot's time
    participants: Mapping[int, Participant] = field(default_factory=dict)  # running jobs that this re-plan may change
    left_out: Mapping[int, Participant] = field(default_factory=dict)  # beyond the solve; urgent jobs may stop them
    replan: bool = False
    pays: bool = False  # see `policies.policy.Policy`
    memory: Memory = NOTHING  # of the last planning
    walk_s: float = 0.0  # seconds to check the queue and to put it in order: the measure of later walks over it
    tied: Callable[[Job], Job] = (
        untied  # a running job's description, tied to nodes that stay open (`planning.closing`)
    )
    check: Callable[[Job], None] = taken_as_sound  # raises InvalidJob if a running job cannot be planned as described

    @property
    def remaining_s(self) -> float:
        return self.deadline_s - self.clock()

    def with_least(self) -> Work:
        """The same work with at least `PLACING_LEAST` of the limit left."""
        return replace(self, deadline_s=max(self.deadline_s, self.clock() + PLACING_LEAST * self.parameters.limit_s))

    def before(self, share: float, walks: float = 0.0) -> Work:
        """The same work for earlier steps. Later steps have this share of the limit, and time for `walks` over the queue."""
        later_s = share * self.parameters.limit_s + walks * self.walk_s
        return replace(self, deadline_s=self.deadline_s - later_s)

    def ends_s(self, share: float) -> float:
        """When a step with this share of the limit must end, on `clock`, if it begins now, however late it begins."""
        return max(self.deadline_s, self.clock() + share * self.parameters.limit_s)

    @property
    def changeable(self) -> Mapping[int, Participant]:
        """All running jobs that this re-plan may change."""
        return {**self.participants, **self.left_out} if self.left_out else self.participants
