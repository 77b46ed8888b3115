"""A planning (algorithms.md section 7): from a snapshot to one decision, with its reason, for every job in it.

Step 1, ends and time limits, is done when the snapshot is taken. A bad node or job is set aside and named in `faults`
(`scheduler.planning.inputs`). The steps come in this order. Step 3: ages, the order of the queue, in a re-plan which running
jobs take part. Then promises of earlier plannings are settled, and jobs that share GPUs get their places. Step 2: profiles
and probes, which get their GPUs first. Steps 4 to 8 are the policy's: windows, configurations, solve, call-backs and CPU jobs.
Step 9 is `scheduler.planning.recording`: the reasons, in words and figures.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from scheduler.copies import replace
from scheduler.fairness.priorities import Moment, order
from scheduler.model import Clock, ClusterState, Plan, Ranked, Running
from scheduler.placement.work import NOTHING, Memory, Work
from scheduler.planning import leftovers, profiling, sharing
from scheduler.planning.asked_cores import give_asked
from scheduler.planning.closing import Closing
from scheduler.planning.decided import Decided, Line, Measuring
from scheduler.planning.inputs import PlanningInput, SnapshotInput
from scheduler.planning.measuring import choose_probes, choose_spreads, seen_in
from scheduler.planning.recording import record
from scheduler.policies.registry import POLICIES
from scheduler.replan import early, participants, paying
from scheduler.replan.promises import Settled, settle
from scheduler.rules import PROMISES

if TYPE_CHECKING:
    from numpy.random import Generator

    from scheduler.parameters import Parameters
    from scheduler.placement.outcome import Outcome
    from scheduler.planning.sharing import Sharing
    from scheduler.policies.policy import Policy


EXPLAINING_SHARE, EXPLAINING_PER_INTAKE = 0.1, 1.5
"""The time kept for decisions and metrics after placing: this part of the limit, or this multiple of the time of checking and
ordering, if that is more. Checking and ordering are a good measure, for they too take longer with a longer queue and on a slower
machine. A third of this time is for explanations."""
RECORDING_MOST = 0.5
"""The time for recording is at most this part of the rest of the limit."""


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
    running, pays = inputs.state.running if replan else (), policy.pays(parameters)
    taking_part = participants.taking_part(running, inputs.ledger, parameters, now_s, pays=pays)
    age = inputs.ages(parameters.tick_s)
    closing = Closing(inputs.ledger.nodes, inputs.state.history, age, now_s, parameters.restart_cost_s)
    line = _line_up(inputs, now_s, parameters, policy, clock, taking_part, closing)
    settled = settle(
        [closing.tied(job) for job in inputs.promised if job.id not in line.aside],
        closing.live(inputs.stopping, inputs.check),
        inputs.ledger,
        inputs.estimator,
        now_s=now_s,
        restart_cost_s=parameters.restart_cost_s,
    )
    shared = sharing.choose(line.queue, inputs.ledger, inputs.state, parameters, fair=policy.is_fair(parameters))
    measuring = replace(_measure(inputs, line, shared, settled.kept, now_s, parameters, policy), sharing=shared)
    ends_s = began_s + parameters.limit_s
    intake_s = clock() - began_s
    reserve_s = min(
        max(EXPLAINING_SHARE * parameters.limit_s, EXPLAINING_PER_INTAKE * intake_s),
        RECORDING_MOST * max(0.0, parameters.limit_s - intake_s),
    )
    means = (inputs.ledger, inputs.estimator, parameters, rng, clock, ends_s - reserve_s, measuring.state, now_s)
    work = Work(
        measuring.left,
        *means,
        replan=replan,
        pays=pays,
        memory=inputs.memory,
        walk_s=intake_s,
        tied=closing.tied,
        check=inputs.check,
    )
    outcome = _with_promises(_place(policy, work, taking_part, line), settled, parameters)
    outcome.draft.chosen.update(shared.chosen)
    leftovers.hand_out(measuring.left, work, outcome)
    give_asked(line.queue, work.ledger, outcome.draft)
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
    closing: Closing,
) -> Line:
    ledger, state = inputs.ledger, inputs.state
    foresight = inputs.foresight(participants.released(ledger, taking_part) if taking_part else ledger)
    priority = policy.priority(parameters)

    def moment(waiting: int) -> Moment:
        return Moment(now_s, ledger.gpus_up, waiting + len(state.running))

    age = closing.age
    began_s = clock()
    queue, aside = inputs.line_up(foresight, priority, moment, age)
    queue = closing.queue(queue)
    order_s = clock() - began_s
    return Line(queue, aside, age, order_s, lambda own: closing.queue(order(own, priority, moment(len(queue)), age)))


def _measure(
    inputs: PlanningInput,
    line: Line,
    shared: Sharing,
    promised: AbstractSet[int],
    now_s: float,
    parameters: Parameters,
    policy: Policy,
) -> Measuring:
    """Choose the measurements that begin now; none under policies that use no speeds. `promised`: ids of jobs with a promise."""
    queue, ledger, state = shared.apart(line.queue), inputs.ledger, inputs.state
    waiting = [each for each in queue if each.job.id not in promised] if promised else queue
    if not policy.replans:
        return Measuring(waiting, state)
    probes = choose_probes(waiting, ledger, state, parameters, now_s)
    if probes:
        state = replace(state, running=seen_in(state, probes, now_s))
    profiles = profiling.choose(waiting, ledger, state, parameters, now_s)
    waiting, state = profiles.apart(waiting), profiles.seen_in(state, queue, now_s)
    inputs.estimator.explore(choose_spreads(waiting, state.running, inputs.estimator, line.age, parameters))
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
        outcome.draft.promises.clear()
    outcome.draft.chosen.update(settled.started)
    outcome.standings.window.update(settled.kept)
    return replace(outcome, promised=settled.waiting)


def _next_replan_s(outcome: Outcome, work: Work, replanned_s: float | None) -> float | None:
    """When the next re-plan should be, where that is before its round is over. `replanned_s`: when the last one was."""
    if not outcome.may_end_round or work.parameters.placement != "ilp":
        return None
    due_s = early.due_s(
        outcome.pressing,
        outcome.draft,
        _without(work, outcome),
        work,
        replanned_s,
    )
    if due_s is not None and due_s <= work.now_s:
        return due_s
    reserved = {node for each in outcome.reservations for node in each.nodes}
    grown_s = paying.growth_due_s(
        work, _without(work, outcome), outcome.draft.objective.gain, reserved, replanned_s, due_s
    )
    return due_s if grown_s is None else grown_s


def _without(work: Work, outcome: Outcome) -> Iterator[Ranked]:
    """The eligible jobs that this planning leaves without a place, in queue order."""
    return (
        each
        for each in work.queue
        if not outcome.draft.has(each.job.id)
        and each.job.id not in outcome.standings.sated
        and work.ledger.over_quota(each.job) is None
    )


REPEATS = 20
"""The most plannings in a row that a driver makes at one moment, without waiting for its next tick."""


def plan(
    state: ClusterState,
    now_s: float,
    parameters: Parameters,
    rng: Generator,
    clock: Clock,
    *,
    replan: bool = False,
    policy: Policy | None = None,
) -> Plan:
    """One planning. `now_s`: the snapshot's time; `clock`: monotonic, for limit and timings; `rng`: seeds the solver.

    `policy`: None = the one that the parameters name.
    `replan`: running elastic jobs take part, so that they may be resized, moved or stopped; else only idle resources are
    handed out. The same arguments give the same plan, unless the time limit cuts the search short. Bad nodes and jobs
    never raise.
    """
    return plan_on(NOTHING, state, now_s, parameters, rng, clock, replan=replan, policy=policy)[0]


def plan_on(
    memory: Memory,
    state: ClusterState,
    now_s: float,
    parameters: Parameters,
    rng: Generator,
    clock: Clock,
    *,
    replan: bool = False,
    policy: Policy | None = None,
) -> tuple[Plan, Memory]:
    """Plan as `plan` does, with the last planning's memory; return the plan with the memory for the next one.

    Without it a planning gives as good a plan, later. A driver may pass the last planning's job objects again, with only
    `wait_s` changed.
    """
    began_s = clock()
    inputs = SnapshotInput(state, memory)
    start = inputs.ledger.copy()
    policy = policy or POLICIES[parameters.policy]
    decided = decide(inputs, now_s, parameters, policy, rng, clock, replan=replan, began_s=began_s)
    made = record(decided, inputs, start, now_s, parameters, clock, began_s=began_s)
    return made, Memory(decided.outcome.left, inputs.sound, inputs.known_types)
