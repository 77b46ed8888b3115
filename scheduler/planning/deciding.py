"""What a planning decides (algorithms.md section 7, steps 2 to 8): who starts where, who stops, what is promised.

The steps come in this order. Step 3: ages, the order of the queue, and in a re-plan which running jobs take part. Then the
promises of earlier plannings are settled. Step 2: profiles and probes, which get their GPUs first. Steps 4 to 8 are the
policy's: windows, configurations, the solve, call-backs and CPU jobs. `recording` then says why, in words and figures.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from scheduler.fairness.priorities import Moment, order
from scheduler.model import Reason
from scheduler.placement.feasibility import any_fits
from scheduler.placement.work import Work
from scheduler.planning import exploring, probing, profiling
from scheduler.replan import early, participants
from scheduler.replan.promises import settle
from scheduler.rules import PROMISES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from numpy.random import Generator

    from scheduler.explaining.figures import Why
    from scheduler.fairness.lrf import Age
    from scheduler.model import Clock, ClusterState, Job, LinkOrder, Ranked, Running
    from scheduler.parameters import Parameters
    from scheduler.placement.outcome import Outcome
    from scheduler.planning.inputs import PlanningInput
    from scheduler.policies.policy import Policy
    from scheduler.replan.promises import Settled

INELIGIBLE = frozenset(
    {Reason.HELD, Reason.DEPENDENCY, Reason.RESTORED, Reason.TENANT_QUOTA, Reason.INVALID, Reason.NO_NODE_WITH_TYPE}
)
"""The cluster does not cause a wait for one of these reasons, so it does not count as `wait_s`."""

EXPLAINING_SHARE, EXPLAINING_PER_INTAKE = 0.1, 1.1
"""The time kept for decisions and metrics after placing: this part of the limit, or so many times what checking and ordering
took, if that is more. Checking and ordering are a good measure, for they too take longer with a longer queue and on a slower
machine. A third of this time is for explanations."""
RECORDING_MOST = 0.5
"""The time for recording is at most this part of what is left of the limit."""


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
    """The probes and profiles that begin now, the jobs left to be placed, and the state with what probes and profiles hold."""

    left: Sequence[Ranked]
    state: ClusterState
    profiles: profiling.Profiles = field(default_factory=profiling.Profiles)
    probes: tuple[LinkOrder, ...] = ()


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
        answers, ledger = self.outcome.answers, self.inputs.ledger
        out_of_time, sated = self.outcome.obstacles.out_of_time, self.outcome.standings.sated
        yield from answers.invalid
        if not ledger.quotas:
            return
        for ranked in self.line.queue:
            number = ranked.job.id
            if number in answers.chosen or number in out_of_time or number in self.measuring.profiles.waiting:
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
        job outside the window fits what is still idle.
        """
        obstacles, ledger = self.outcome.obstacles, self.inputs.ledger
        standings, chosen = self.outcome.standings, self.outcome.answers.chosen
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
            and ledger.over_quota(ranked.job) is None
        )
        return any_fits(outside, ledger)


def decide(
    inputs: PlanningInput,
    now_s: float,
    parameters: Parameters,
    policy: Policy,
    rng: Generator,
    clock: Clock,
    *,
    replan: bool,
    began_s: float,
) -> Decided:
    """Decide on the input, taking from its ledger. `began_s`: when the planning began, on `clock`."""
    replan = replan and policy.replans and parameters.placement == "ilp"
    running = inputs.state.running
    taking_part = participants.taking_part(running, inputs.ledger, parameters, now_s) if replan else []
    line = _line_up(inputs, now_s, parameters, policy, clock, taking_part)
    settled = _settle(inputs, line, now_s, parameters)
    measuring = _measure(inputs, line, settled.kept, now_s, parameters, policy)
    ends_s = began_s + parameters.limit_s
    reserve_s = _recording_s(parameters, clock() - began_s)
    means = (inputs.ledger, inputs.estimator, parameters, rng, clock, ends_s - reserve_s, measuring.state, now_s)
    work = Work(measuring.left, *means, replan=replan, memory=inputs.memory, check=inputs.check)
    outcome = _with_promises(_place(policy, work, taking_part, line), settled, parameters)
    lapsed = tuple(sorted([*settled.lapsed, *(job.id for job in inputs.promised if job.id in line.aside)]))
    replan_s = _next_replan_s(outcome, work, now_s if replan else inputs.state.replanned_s)
    unexplained_s = ends_s - reserve_s * 2 / 3
    return Decided(policy, inputs, line, measuring, outcome, lapsed, replan, replan_s, unexplained_s)


def _line_up(
    inputs: PlanningInput,
    now_s: float,
    parameters: Parameters,
    policy: Policy,
    clock: Clock,
    taking_part: Sequence[Running],
) -> Line:
    ledger, state = inputs.ledger, inputs.state
    foresight = inputs.foresight(participants.released(ledger, taking_part) if taking_part else ledger)
    priority = policy.priority(parameters)

    def moment(waiting: int) -> Moment:
        return Moment(now_s, ledger.gpus_up, waiting + len(state.running))

    age = inputs.ages(parameters.tick_s)
    began_s = clock()
    queue, aside = inputs.line_up(foresight, priority, moment, age)
    order_s = clock() - began_s
    return Line(queue, aside, age, order_s, lambda own: order(own, priority, moment(len(queue)), age))


def _settle(inputs: PlanningInput, line: Line, now_s: float, parameters: Parameters) -> Settled:
    """Settle the promises of earlier plannings."""
    promised = [job for job in inputs.promised if job.id not in line.aside]
    return settle(
        promised,
        inputs.stopping,
        inputs.ledger,
        inputs.estimator,
        now_s=now_s,
        restart_cost_s=parameters.restart_cost_s,
    )


def _measure(
    inputs: PlanningInput,
    line: Line,
    promised: AbstractSet[int],
    now_s: float,
    parameters: Parameters,
    policy: Policy,
) -> Measuring:
    """Choose what is measured now; nothing under policies that use no speeds. `promised`: ids of jobs with a promise."""
    queue, ledger, state = line.queue, inputs.ledger, inputs.state
    waiting = [each for each in queue if each.job.id not in promised] if promised else queue
    if not policy.replans:
        return Measuring(waiting, state)
    probes = probing.choose(waiting, ledger, state, parameters)
    if probes:
        state = replace(state, running=probing.seen_in(state, probes, now_s))
    profiles = profiling.choose(waiting, ledger, state, parameters, now_s)
    waiting, state = profiles.apart(waiting), profiles.seen_in(state, queue, now_s)
    inputs.estimator.explore(exploring.choose(waiting, state.running, inputs.estimator, line.age, parameters))
    return Measuring(waiting, state, profiles, probes)


def _place(policy: Policy, work: Work, taking_part: Sequence[Running], line: Line) -> Outcome:
    taken_up, left_out = participants.gather(taking_part, work, rank=line.rank, check=work.check)
    running = taken_up or left_out
    outcome = policy.place(replace(work, participants=taken_up, left_out=left_out) if running else work)
    if not running and not line.order_s:  # on a clock that stands still there is nothing to add
        return outcome
    solver = replace(outcome.solver, participants=len(taken_up), left_out=len(left_out), order_s=line.order_s)
    return replace(outcome, solver=solver)


def _with_promises(outcome: Outcome, settled: Settled, parameters: Parameters) -> Outcome:
    """The outcome with the promises of earlier plannings."""
    if PROMISES in parameters.off:
        outcome.answers.promises.clear()
    outcome.answers.chosen.update(settled.started)
    outcome.standings.window.update(settled.kept)
    return replace(outcome, promised=settled.waiting)


def _recording_s(parameters: Parameters, intake_s: float) -> float:
    """The part of the limit that is kept for decisions and metrics. `intake_s`: what checking and ordering took."""
    wanted = max(EXPLAINING_SHARE * parameters.limit_s, EXPLAINING_PER_INTAKE * intake_s)
    return min(wanted, RECORDING_MOST * max(0.0, parameters.limit_s - intake_s))


def _next_replan_s(outcome: Outcome, work: Work, replanned_s: float | None) -> float | None:
    """When the next re-plan should be, where that is before its round is over. `replanned_s`: when the last one was."""
    if not outcome.may_end_round or work.parameters.placement != "ilp":
        return None
    without = (
        each
        for each in work.queue
        if not outcome.answers.has(each.job.id)
        and each.job.id not in outcome.standings.sated
        and work.ledger.over_quota(each.job) is None
    )
    return early.due_s(
        outcome.pressing, outcome.answers, without, work.ledger, work.state, work.parameters, work.now_s, replanned_s
    )
