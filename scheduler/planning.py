"""A planning (algorithms.md section 7): from a snapshot to one decision, with its reason, for every job in it.

Step 1, ends and time limits, is done when the snapshot is taken. Here, after promises given before are settled:
3. refresh ages, the order and, in a re-plan, who of the running jobs takes part; 4-8. windows, configurations, the solve,
call-backs and CPU jobs, which the policy does; 9. decisions, solver figures, metrics. Profiles (2) go first of all that is
handed out, in the order just made. A bad node or job is set aside and named in `faults`; the planning goes on.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from scheduler import explain, metrics, profiling
from scheduler.detail import Details
from scheduler.errors import InvalidJob, InvalidNode
from scheduler.estimator.layers import estimator_for
from scheduler.explain import Foresight, Hindsight, Why
from scheduler.fairness.lrf import age_of
from scheduler.fairness.priorities import Moment, order
from scheduler.intake import check_speeds, take_in
from scheduler.model import Decision, Fault, Kept, Metrics, Plan, Reason, Result
from scheduler.placement.ledger import Ledger
from scheduler.policy import POLICIES
from scheduler.replan import participants
from scheduler.replan.promises import settle
from scheduler.validation import check_job, check_node, is_plainly_sound
from scheduler.work import Work

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.random import Generator

    from scheduler.fairness.lrf import Age
    from scheduler.model import Clock, ClusterState, Job, Node
    from scheduler.policy import Parameters, Policy
    from scheduler.work import Outcome, Ranked

INELIGIBLE = frozenset({Reason.HELD, Reason.DEPENDENCY, Reason.TENANT_QUOTA, Reason.INVALID, Reason.NO_NODE_WITH_TYPE})
"""Waiting for one of these is not the cluster's doing: it does not count as `wait_s`."""

EXPLAINING_SHARE, EXPLAINING_PER_INTAKE = 0.1, 0.8
"""What is kept of the limit for the decisions and metrics after placing: a part of it, or of what checking and ordering
took, which grows with the queue and with the machine's slowness as they do. A third of it is for explanations."""


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
    `replan`: running elastic jobs take part, so that they may be resized, moved or stopped; else only what is idle is
    handed out. The same arguments give the same plan, unless the time limit cuts the search short. Bad nodes and jobs
    never raise.
    """
    began_s = clock()
    intake = take_in(state)
    state = intake.state
    nodes, faulty_nodes = _sound_nodes(state)
    jobs, faulty_jobs = _sound_jobs(state, nodes, intake.suspects)
    policy = policy or POLICIES[parameters.policy]
    replan = replan and policy.replans and parameters.placement == "ilp"
    ledger = Ledger(nodes, state.tenants, state.running)
    start = ledger.copy()
    taking_part = participants.taking_part(state.running, ledger, parameters, now_s) if replan else []
    foresight = Foresight(participants.released(ledger, taking_part))
    aside = {job.id: why for job in jobs if (why := foresight.why_aside(job)) is not None}
    waiting = [job for job in jobs if job.id not in aside]
    moment = Moment(now_s, ledger.gpus_up, len(waiting) + len(state.running))
    priority = policy.priority(parameters)
    estimator = estimator_for(state.knowledge, state.gpu_speeds, nodes)
    gpus_by_type = Counter[str]()
    for node in nodes:
        gpus_by_type[node.gpu_type or ""] += node.gpus_total

    def age(job: Job) -> Age:
        known = {} if job.total_samples is None else estimator.samples_per_s(job)
        return age_of(job, state.history, tick_s=parameters.tick_s, samples_per_s=known, gpus_by_type=gpus_by_type)

    ordering_s = clock()
    queue = order(waiting, priority, moment, age)
    order_s = clock() - ordering_s
    settled = settle(waiting, state.running, ledger, estimator, now_s=now_s, restart_cost_s=parameters.restart_cost_s)
    unsettled = [*(job for job in jobs if job.id in aside), *(job for job, _ in faulty_jobs)]
    lapsed = [*settled.lapsed, *(job.id for job in unsettled if job.promise is not None)]
    unpromised = [each for each in queue if each.job.id not in settled.started and each.job.id not in settled.waiting]
    profiles = profiling.Profiles()
    if policy.replans:  # the others know no speeds
        profiles = profiling.choose(unpromised, ledger, state, parameters, now_s)
        unpromised, state = profiles.apart(unpromised), profiles.seen_in(state, queue, now_s)
    end_s = began_s + parameters.limit_s
    reserve_s = max(EXPLAINING_SHARE * parameters.limit_s, EXPLAINING_PER_INTAKE * (clock() - began_s))
    work = Work(unpromised, ledger, estimator, parameters, rng, clock, end_s - reserve_s, state, now_s, replan=replan)
    known_types = _known_types(state, nodes)

    def check(job: Job) -> None:
        check_job(job, known_types)
        check_speeds(job, intake.suspects)

    taken_up, left_out = participants.gather(
        taking_part,
        work,
        rank=lambda own: order(own, priority, moment, age),
        check=check,
    )
    outcome = policy.place(replace(work, participants=taken_up))
    outcome.solver = replace(outcome.solver, participants=len(taken_up), left_out=left_out)
    outcome.chosen |= settled.started
    outcome.promised = settled.waiting
    outcome.window |= settled.started.keys() | settled.waiting.keys()
    details = Details(start, ledger, outcome, queue, estimator)
    unexplained_s = end_s - reserve_s * 2 / 3
    hindsight = Hindsight(
        start, ledger, outcome, queue, details, parameters.limit_s, now_s, late=lambda: clock() >= unexplained_s
    )
    decisions = [
        *_decide_queue(queue, ledger, outcome, hindsight, details, profiles),
        *_decide_aside(jobs, aside, age),
        *(_invalid(error, job) for job, error in faulty_jobs),
    ]
    errors = [*intake.faults, *faulty_nodes, *(error for _, error in faulty_jobs), *outcome.invalid.values()]
    return Plan(
        policy=policy.name,
        now_s=now_s,
        decisions=tuple(decisions),
        solver=replace(outcome.solver, order_s=order_s, window_s=outcome.window_s),
        metrics=_measure(replace(state, jobs=jobs), nodes, ledger.with_kept(), decisions, parameters, now_s),
        queue_length=len(queue),
        window_jobs=len(outcome.window),
        window_gpus=outcome.window_gpus,
        windows=tuple(outcome.windows),
        shares=tuple(outcome.shares),
        total_s=clock() - began_s,
        reservations=tuple(Kept(each.job, tuple(sorted(each.nodes)), each.until_s) for each in outcome.reservations),
        stops=tuple(outcome.stops),
        promises=tuple(outcome.promises),
        lapsed=tuple(sorted(lapsed)),
        replan=replan,
        faults=tuple(Fault(error.subject, error.key, error.detail) for error in errors),
        profiles=tuple(profiles.orders),
    )


def window_ran_out(made: Plan) -> bool:
    """Whether all of the window started while GPUs are idle and jobs stand outside: the next planning looks further.

    An array's window ends at the array's own GPUs, so on what it may borrow its jobs come by one window after the other.
    """
    waiting = [decision for decision in made.decisions if decision.placement is None]
    outside = any(decision.reason is Reason.OUTSIDE_WINDOW for decision in waiting)
    return outside and made.metrics.gpus_idle > 0 and not any(decision.inside_window for decision in waiting)


def _sound_nodes(state: ClusterState) -> tuple[list[Node], list[InvalidNode]]:
    sound: dict[int, Node] = {}
    faulty: list[InvalidNode] = []
    for node in state.nodes:
        try:
            check_node(node, state.gpu_speeds, listed=sound)
            sound[node.id] = node
        except InvalidNode as error:
            faulty.append(error)
    return list(sound.values()), faulty


def _sound_jobs(
    state: ClusterState, nodes: Sequence[Node], suspects: Mapping[str, str]
) -> tuple[list[Job], list[tuple[Job, InvalidJob]]]:
    known = _known_types(state, nodes)
    sound: dict[int, Job] = {}
    faulty: list[tuple[Job, InvalidJob]] = []
    shapes: set[tuple[object, object]] = set()
    for job in state.jobs:
        try:
            if not is_plainly_sound(job, shapes) or job.id in sound:
                check_job(job, known, listed=sound)
                shapes.add((job.requirement, job.gpu_types))
            if suspects:
                check_speeds(job, suspects)
            sound[job.id] = job
        except InvalidJob as error:
            faulty.append((job, error))
    return list(sound.values()), faulty


def _known_types(state: ClusterState, nodes: Sequence[Node]) -> set[str]:
    return {node.gpu_type for node in nodes if node.gpu_type} | set(state.gpu_speeds)


def _decide_queue(
    queue: Sequence[Ranked],
    final: Ledger,
    outcome: Outcome,
    hindsight: Hindsight,
    details: Details,
    profiles: profiling.Profiles,
) -> list[Decision]:
    decisions: list[Decision] = []
    for ranked in queue:
        job_id = ranked.job.id
        result, placement, eligible = Result.WAITING, None, False
        if (chosen := outcome.chosen.get(job_id)) is not None:
            result, placement = Result.PLACED, chosen.placement
            reason, figures = None, explain.placed(chosen, final)
        elif (error := outcome.invalid.get(job_id)) is not None:
            result = Result.INVALID
            reason, figures = Reason.INVALID, {"detail": error.detail}
        elif (measured := profiles.waiting.get(job_id)) is not None:
            reason, figures, eligible = Reason.PROFILING, measured, True
        else:
            why = hindsight.why_waiting(ranked)
            reason, figures = why.reason, why.figures
            eligible = reason not in INELIGIBLE
        decisions.append(
            Decision(
                job=job_id,
                result=result,
                reason=reason,
                figures=figures,
                rank=ranked.rank,
                latency_ratio=ranked.latency_ratio,
                wait_s=ranked.job.wait_s,
                age_s=ranked.age_s,
                age_source=ranked.age_source,
                inside_window=job_id in outcome.window,
                eligible=eligible,
                placement=placement,
                standing=outcome.standing(ranked),
                explain=details,
            )
        )
    return decisions


def _decide_aside(jobs: Sequence[Job], aside: Mapping[int, Why], age_for: Callable[[Job], Age]) -> list[Decision]:
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


def _invalid(error: InvalidJob, job: Job) -> Decision:
    # Nothing of the job's own numbers is repeated: they may be what is wrong with it (a NaN is not JSON).
    return Decision(job.id, Result.INVALID, Reason.INVALID, {"detail": error.detail})


def _measure(
    state: ClusterState,
    nodes: Sequence[Node],
    final: Ledger,
    decisions: Sequence[Decision],
    parameters: Parameters,
    now_s: float,
) -> Metrics:
    waiting = [decision for decision in decisions if decision.result is Result.WAITING]
    eligible = {decision.job: decision for decision in waiting if decision.eligible}
    # A job that is being profiled leaves nothing idle for want of a place.
    wanting = {number for number, each in eligible.items() if each.reason is not Reason.PROFILING}
    fragments = metrics.fragments((job for job in state.jobs if job.id in wanting), final)
    gpus, cores = metrics.allocated(nodes, final)
    gpus_total, cores_total = sum(node.gpus_total for node in nodes), sum(node.cores_total for node in nodes)
    mean, largest = metrics.live_latency_ratio([each.latency_ratio or 0.0 for each in eligible.values()])
    raqlr, ended = metrics.raqlr(state.ended, now_s, parameters.raqlr_hours)
    return Metrics(
        gpus_total=gpus_total,
        gpus_allocated=gpus,
        gpus_idle=final.idle_gpus,
        cores_total=cores_total,
        cores_allocated=cores,
        gpu_active_rate=metrics.rate(gpus, gpus_total),
        cpu_active_rate=metrics.rate(cores, cores_total),
        fragments_cores=fragments.short_of_cores,
        fragments_scattered=fragments.scattered,
        fragment_rate=metrics.rate(fragments.total, gpus_total),
        queue_length=len(eligible),
        waiting_by_reason=dict(sorted((str(name), n) for name, n in Counter(each.reason for each in waiting).items())),
        live_lr_mean=mean,
        live_lr_max=largest,
        raqlr=raqlr,
        raqlr_jobs=ended,
        raqlr_hours=parameters.raqlr_hours,
    )
