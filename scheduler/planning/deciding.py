"""What a planning decides (algorithms.md section 7, steps 2 to 8): who starts where, who stops, what is promised.

After promises given before are settled: 3. refresh ages, the order and, in a re-plan, who of the running jobs takes part;
2. profiles, first of all that is handed out, in that order; 4-8. windows, configurations, the solve, call-backs and CPU
jobs, which the policy does. Why, in words and figures, is `recording`'s to say: it looks at the same `Decided`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
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

    from numpy.random import Generator

    from scheduler.explaining.figures import Why
    from scheduler.fairness.lrf import Age
    from scheduler.model import Clock, Job, LinkOrder, Ranked
    from scheduler.parameters import Parameters
    from scheduler.placement.work import Outcome
    from scheduler.planning.inputs import PlanningInput
    from scheduler.policies.policy import Policy

INELIGIBLE = frozenset(
    {Reason.HELD, Reason.DEPENDENCY, Reason.RESTORED, Reason.TENANT_QUOTA, Reason.INVALID, Reason.NO_NODE_WITH_TYPE}
)
"""Waiting for one of these is not the cluster's doing: it does not count as `wait_s`."""

EXPLAINING_SHARE, EXPLAINING_PER_INTAKE = 0.1, 1.1
"""What is kept of the limit for the decisions and metrics after placing: a part of it, or of what checking and ordering
took, which grows with the queue and with the machine's slowness as they do, and as the sweep's list of the queue does. A third of
it is for explanations."""
RECORDING_MOST = 0.5
"""But at most so much of what is left of the limit."""


@dataclass(frozen=True)
class Decided:
    """A planning's decisions. `outcome.chosen`: who starts; `aside`: who took no part, and why; `lapsed`: job ids."""

    policy: Policy
    inputs: PlanningInput
    queue: Sequence[Ranked]
    aside: Mapping[int, Why]
    outcome: Outcome
    profiles: profiling.Profiles
    probes: tuple[LinkOrder, ...]
    lapsed: tuple[int, ...]
    replan: bool
    replan_s: float | None  # when the next re-plan should be, where that is before its round is over
    age: Callable[[Job], Age]
    order_s: float
    unexplained_s: float  # on the planning's clock: from then on it is too late to look for more than what lies at hand

    def ineligible(self) -> Iterator[int]:
        """Who waits through no doing of the cluster's, as `Decision.eligible` has it."""
        for number, why in self.aside.items():
            if why.reason in INELIGIBLE:
                yield number
        outcome, ledger = self.outcome, self.inputs.ledger
        yield from outcome.invalid
        if not ledger.quotas:
            return
        for ranked in self.queue:
            number = ranked.job.id
            if number in outcome.chosen or number in outcome.out_of_time or number in self.profiles.waiting:
                continue
            if number in outcome.sated or ledger.over_quota(ranked.job) is not None:
                yield number

    def round_is_over(self, now_s: float) -> bool:
        """Whether a re-plan should follow at once."""
        return self.replan_s is not None and self.replan_s <= now_s

    @cached_property
    def window_ran_out(self) -> bool:
        """Whether the next planning could start more at once: a sweep ended before everybody who fits had a turn, or, without
        one, all of the window started while what is idle fits a job outside.
        """
        outcome, ledger = self.outcome, self.inputs.ledger
        if outcome.unswept is not None:
            return bool(outcome.unswept)  # everybody else had the chance to start
        if not outcome.window <= outcome.chosen.keys():
            return False
        outside = (
            ranked.job
            for ranked in self.queue
            if ranked.job.id not in outcome.chosen
            and ranked.job.id not in outcome.out_of_time
            and ranked.job.id not in outcome.sated
            and ranked.job.id not in self.profiles.waiting
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
    ledger, state = inputs.ledger, inputs.state
    taking_part = participants.taking_part(state.running, ledger, parameters, now_s) if replan else []
    foresight = inputs.foresight(participants.released(ledger, taking_part) if taking_part else ledger)
    priority = policy.priority(parameters)

    def moment(waiting: int) -> Moment:
        return Moment(now_s, ledger.gpus_up, waiting + len(state.running))

    age = inputs.ages(parameters.tick_s)
    ordering_s = clock()
    queue, aside = inputs.line_up(foresight, priority, moment, age)
    order_s = clock() - ordering_s
    promised = [job for job in inputs.promised if job.id not in aside]
    cost_s = parameters.restart_cost_s
    settled = settle(promised, inputs.stopping, ledger, inputs.estimator, now_s=now_s, restart_cost_s=cost_s)
    lapsed = [*settled.lapsed, *(job.id for job in inputs.promised if job.id in aside)]
    kept = settled.started.keys() | settled.waiting.keys()
    unpromised = [each for each in queue if each.job.id not in kept] if kept else queue
    profiles = profiling.Profiles()
    probes: tuple[LinkOrder, ...] = ()
    if policy.replans:  # the others know no speeds
        probes = probing.choose(unpromised, ledger, state, parameters)
        if probes:
            state = replace(state, running=probing.seen_in(state, probes, now_s))
        profiles = profiling.choose(unpromised, ledger, state, parameters, now_s)
        unpromised, state = profiles.apart(unpromised), profiles.seen_in(state, queue, now_s)
        inputs.estimator.explore(exploring.choose(unpromised, state.running, inputs.estimator, age, parameters))
    end_s, reserve_s = began_s + parameters.limit_s, _recording_s(parameters, clock() - began_s)
    work = Work(
        unpromised, ledger, inputs.estimator, parameters, rng, clock, end_s - reserve_s, state, now_s, replan=replan,
        memory=inputs.memory, check=inputs.check,
    )  # fmt: skip
    waiting = len(queue)
    taken_up, left_out = participants.gather(
        taking_part, work, rank=lambda own: order(own, priority, moment(waiting), age), check=inputs.check
    )
    running = taken_up or left_out
    outcome = policy.place(replace(work, participants=taken_up, left_out=left_out) if running else work)
    if running or order_s:  # a driver whose clock stands still has nothing to add
        outcome.solver = replace(outcome.solver, participants=len(taken_up), left_out=len(left_out), order_s=order_s)
    if PROMISES in parameters.off:
        outcome.promises.clear()
    outcome.chosen |= settled.started
    outcome.promised = settled.waiting
    outcome.window |= kept
    replanned_s = now_s if replan else state.replanned_s
    replan_s = _next_replan_s(outcome, unpromised, work, replanned_s)
    return Decided(
        policy, inputs, queue, aside, outcome, profiles, probes, tuple(sorted(lapsed)), replan, replan_s, age, order_s,
        end_s - reserve_s * 2 / 3,
    )  # fmt: skip


def _recording_s(parameters: Parameters, intake_s: float) -> float:
    """What is kept of the limit for the decisions and metrics, where checking and ordering took so long."""
    wanted = max(EXPLAINING_SHARE * parameters.limit_s, EXPLAINING_PER_INTAKE * intake_s)
    return min(wanted, RECORDING_MOST * max(0.0, parameters.limit_s - intake_s))


def _next_replan_s(outcome: Outcome, waiting: Sequence[Ranked], work: Work, replanned_s: float | None) -> float | None:
    """When the next re-plan should be, where that is before its round is over. `replanned_s`: when the last one was."""
    if not outcome.may_end_round or work.parameters.placement != "ilp":
        return None
    without = (
        each
        for each in waiting
        if not outcome.has_answer(each.job.id)
        and each.job.id not in outcome.sated
        and work.ledger.over_quota(each.job) is None
    )
    return early.due_s(outcome, without, work.ledger, work.state, work.parameters, work.now_s, replanned_s)
