"""A planning's decisions as a value: the queue in its order, the measurements, and the policy's outcome.

`scheduler.planning.deciding` makes it; `recording` gives the reasons, and the simulator reads it too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from scheduler.model import ClusterState, Job, LinkOrder, Ranked, Reason
from scheduler.placement.feasibility import any_fits
from scheduler.planning import profiling
from scheduler.planning.sharing import Sharing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from scheduler.explaining.figures import Why
    from scheduler.fairness.lrf import Age
    from scheduler.placement.outcome import Outcome
    from scheduler.planning.inputs import PlanningInput
    from scheduler.policies.policy import Policy

INELIGIBLE = frozenset(
    {Reason.HELD, Reason.DEPENDENCY, Reason.RESTORED, Reason.TENANT_QUOTA, Reason.INVALID, Reason.NO_NODE_WITH_TYPE}
)
"""The cluster does not cause a wait for one of these reasons, so it does not count as `wait_s`."""


@dataclass(frozen=True, slots=True)
class Line:
    """The queue in its order. `aside`: why other jobs take no part. `rank`: ranks running jobs by the same rule."""

    queue: Sequence[Ranked]
    aside: Mapping[int, Why]
    age: Callable[[Job], Age]
    order_s: float
    rank: Callable[[Sequence[Job]], list[Ranked]]


@dataclass(frozen=True, slots=True)
class Measuring:
    """The probes, profiles and jobs on shared GPUs that begin now, the jobs left to be placed, and the state with probes and
    profiles running.
    """

    left: Sequence[Ranked]
    state: ClusterState
    profiles: profiling.Profiles = field(default_factory=profiling.Profiles)
    probes: tuple[LinkOrder, ...] = ()
    sharing: Sharing = field(default_factory=Sharing)


@dataclass(frozen=True)
class Decided:
    """A planning's decisions."""

    policy: Policy
    inputs: PlanningInput
    line: Line
    measuring: Measuring
    outcome: Outcome
    lapsed: tuple[int, ...]  # ids of jobs whose promise is given up
    replan: bool
    replan_s: float | None  # when the next re-plan should be, where that is before its round is over
    unexplained_s: float  # on the planning's clock: later than this, only reasons that need no search are given

    def ineligible(self) -> Iterator[int]:
        """The jobs whose waiting the cluster does not cause: those for which `Decision.eligible` is false."""
        for number, why in self.line.aside.items():
            if why.reason in INELIGIBLE:
                yield number
        draft, ledger = self.outcome.draft, self.inputs.ledger
        out_of_time, sated = self.outcome.obstacles.out_of_time, self.outcome.standings.sated
        yield from draft.invalid
        sharing = self.measuring.sharing.waiting
        yield from (number for number, why in sharing.items() if why.reason in INELIGIBLE)
        if not ledger.quotas:
            return
        for ranked in self.line.queue:
            number = ranked.job.id
            if number in draft.chosen or number in out_of_time or number in self.measuring.profiles.waiting:
                continue
            if number in sharing:
                continue
            if number in sated or ledger.over_quota(ranked.job) is not None:
                yield number

    def round_is_over(self, now_s: float) -> bool:
        """Whether a re-plan should follow at once."""
        return self.replan_s is not None and self.replan_s <= now_s

    @cached_property
    def window_ran_out(self) -> bool:
        """Whether another planning could start more jobs at once.

        With a sweep: time ended before every job that fits had a turn. Without one: all jobs of the window started, and a
        job outside the window fits the idle resources.
        """
        obstacles, ledger = self.outcome.obstacles, self.inputs.ledger
        standings, chosen = self.outcome.standings, self.outcome.draft.chosen
        if obstacles.unswept is not None:
            return bool(obstacles.unswept)  # every other job had its turn
        if not standings.window <= chosen.keys():
            return False
        outside = (
            ranked.job
            for ranked in self.line.queue
            if ranked.job.id not in chosen
            and ranked.job.id not in obstacles.out_of_time
            and ranked.job.id not in standings.sated
            and ranked.job.id not in self.measuring.profiles.waiting
            and ranked.job.part is None
            and ledger.over_quota(ranked.job) is None
        )
        return any_fits(outside, ledger)
