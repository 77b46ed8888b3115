"""A planning's decisions as a value, and one decision for each job with its reason and figures.

`scheduler.planning.plan` makes the value; `recording` gives the reasons, and the simulator reads it too. The jobs come
in this order: the queue's, then those set aside, then the unsound.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np

from scheduler.explaining.figures import Why, placed
from scheduler.model import ClusterState, Decision, Job, LinkOrder, Queue, Ranked, Reason, Result
from scheduler.placement.feasibility import any_fits
from scheduler.planning import profiling
from scheduler.planning.sharing import Sharing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from scheduler.errors import InvalidJob
    from scheduler.explaining.detail import Details
    from scheduler.explaining.why import Hindsight
    from scheduler.fairness.lrf import Age
    from scheduler.placement.ledger import Ledger
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
    rank: Callable[[Sequence[Job]], Sequence[Ranked]]


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


def decide_queue(decided: Decided, final: Ledger, hindsight: Hindsight, details: Details) -> list[Decision]:
    """The queue's, in its order. `final`: the ledger after the plan. Equal jobs of a long queue are answered together."""
    queue = decided.line.queue
    if not isinstance(queue, Queue) or not queue or queue[-1].rank != len(queue):
        return _decide_each(queue, decided, final, hindsight, details)
    draft = decided.outcome.draft
    measuring = decided.measuring
    others = {*draft.chosen, *draft.invalid, *measuring.profiles.waiting, *measuring.sharing.waiting}
    number, whys = hindsight.in_common(queue, others)
    together = _decide_together(queue, number, whys, decided, details)
    apart = [queue[place] for place in np.flatnonzero(number < 0).tolist()]
    single = iter(_decide_each(apart, decided, final, hindsight, details))
    return [next(together) if each else next(single) for each in (number >= 0).tolist()]


def _decide_together(
    queue: Queue, number: np.ndarray, whys: Sequence[Why], decided: Decided, details: Details
) -> Iterator[Decision]:
    """The decisions of `_decide_each` for equal jobs, by the number of their reason; -1 = not here."""
    standing_of, at = decided.outcome.standings.of_kind, np.flatnonzero(number >= 0)
    standings = {kind: standing_of(head.job, inside=False) for kind, head in queue.heads.items()}
    eligible = [why.reason not in INELIGIBLE for why in whys]
    which, ranked = number[at].tolist(), [queue[place] for place in at.tolist()]
    return map(
        Decision,
        queue.ids[at].tolist(),
        repeat(Result.WAITING),
        [whys[each].reason for each in which],
        [whys[each].figures for each in which],
        (at + 1).tolist(),
        [each.latency_ratio for each in ranked],
        queue.columns["waits_s"][at].tolist(),
        [each.age_s for each in ranked],
        [each.age_source for each in ranked],
        repeat(False),
        [eligible[each] for each in which],
        repeat(None),
        map(standings.__getitem__, queue.kinds[at].tolist()),
        repeat(details),
    )


def _decide_each(
    queue: Sequence[Ranked], decided: Decided, final: Ledger, hindsight: Hindsight, details: Details
) -> list[Decision]:
    draft, standings = decided.outcome.draft, decided.outcome.standings
    measured_of, sharing = decided.measuring.profiles.waiting, decided.measuring.sharing
    chosen_of, invalid, window, standing_of = draft.chosen, draft.invalid, standings.window, standings.of
    decisions: list[Decision] = []
    for ranked in queue:
        job = ranked.job
        job_id = job.id
        result, placement, eligible = Result.WAITING, None, False
        if (chosen := chosen_of.get(job_id)) is not None:
            result, placement = Result.PLACED, chosen.placement
            reason, figures = None, placed(chosen, final) | sharing.told.get(job_id, {})
        elif (error := invalid.get(job_id)) is not None:
            result, reason, figures = Result.INVALID, Reason.INVALID, {"detail": error.detail}
        elif (measured := measured_of.get(job_id)) is not None:
            reason, figures, eligible = Reason.PROFILING, measured, True
        else:
            why = sharing.waiting.get(job_id) or hindsight.why_waiting(ranked)
            reason, figures, eligible = why.reason, why.figures, why.reason not in INELIGIBLE
        queued = (ranked.rank, ranked.latency_ratio, job.wait_s, ranked.age_s, ranked.age_source, job_id in window)
        standing = standing_of(ranked)
        decisions.append(Decision(job_id, result, reason, figures, *queued, eligible, placement, standing, details))
    return decisions


def decide_aside(jobs: Sequence[Job], aside: Mapping[int, Why], age_for: Callable[[Job], Age]) -> list[Decision]:
    decisions: list[Decision] = []
    for job in jobs:
        if (why := aside.get(job.id)) is None:
            continue
        age = age_for(job)
        decisions.append(
            Decision(
                job=job.id,
                result=Result.WAITING,
                reason=why.reason,
                figures=why.figures,
                latency_ratio=job.wait_s / age.age_s,
                wait_s=job.wait_s,
                age_s=age.age_s,
                age_source=age.source,
                eligible=why.reason not in INELIGIBLE,
            )
        )
    return decisions


def decide_invalid(error: InvalidJob, job: Job) -> Decision:
    # None of the job's own numbers are repeated: one of them may be the fault, and a NaN is no JSON.
    return Decision(job.id, Result.INVALID, Reason.INVALID, {"detail": error.detail})
