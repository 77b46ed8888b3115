"""A planning (algorithms.md section 7): from a snapshot to one decision, with its reason, for every job in it.

Step 1, ends and time limits, is done when the snapshot is taken. Here: 3. refresh ages and the order; 4-6 and 8.
windows, configurations, the solve and CPU jobs, which the policy does; 9. decisions, solver figures, metrics.
Profiles (2) and call-backs of borrowed places (7) go around the policy's call. A bad node or job is set aside and
named in `faults`; the planning goes on.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from scheduler import explain, metrics
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
from scheduler.replan.promises import settle
from scheduler.validation import check_job, check_node
from scheduler.work import Work

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.random import Generator

    from scheduler.fairness.lrf import Age
    from scheduler.model import Clock, ClusterState, Job, Node
    from scheduler.policy import Parameters
    from scheduler.work import Outcome, Ranked

INELIGIBLE = frozenset({Reason.HELD, Reason.DEPENDENCY, Reason.TENANT_QUOTA, Reason.INVALID, Reason.NO_NODE_WITH_TYPE})
"""Waiting for one of these is not the cluster's doing: it does not count as `wait_s`."""

EXPLAINING_SHARE, EXPLAINING_PER_INTAKE = 0.1, 0.8
"""What is kept of the limit for the decisions and metrics after placing: a part of it, or of what checking and ordering
took, which grows with the queue and with the machine's slowness as they do. A third of it is for explanations."""


def plan(
    state: ClusterState, now_s: float, parameters: Parameters, rng: Generator, clock: Clock, *, replan: bool = False
) -> Plan:
    """One planning. `now_s`: the snapshot's time; `clock`: monotonic, for limit and timings; `rng`: seeds the solver.

    `replan`: running elastic jobs take part, so that they may be resized, moved or stopped; else only what is idle is
    handed out. The same arguments give the same plan, unless the time limit cuts the search short. Bad nodes and jobs
    never raise.
    """
    began_s = clock()
    intake = take_in(state)
    state = intake.state
    nodes, faulty_nodes = _sound_nodes(state)
    jobs, faulty_jobs = _sound_jobs(state, nodes, intake.suspects)
    ledger = Ledger(nodes, state.tenants, state.running)
    start = ledger.copy()
    foresight = Foresight(start)
    aside = {job.id: why for job in jobs if (why := foresight.why_aside(job)) is not None}
    policy = POLICIES[parameters.policy]
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
    lapsed = [*settled.lapsed, *(job.id for job in jobs if job.promise is not None and job.id in aside)]
    unpromised = [each for each in queue if each.job.id not in settled.started and each.job.id not in settled.waiting]
    end_s = began_s + parameters.limit_s
    reserve_s = max(EXPLAINING_SHARE * parameters.limit_s, EXPLAINING_PER_INTAKE * (clock() - began_s))
    work = Work(unpromised, ledger, estimator, parameters, rng, clock, end_s - reserve_s, state, now_s)
    outcome = policy.place(work)
    outcome.chosen |= settled.started
    outcome.promised = settled.waiting
    outcome.window |= settled.started.keys() | settled.waiting.keys()
    details = Details(start, ledger, outcome, queue, estimator)
    unexplained_s = end_s - reserve_s * 2 / 3
    hindsight = Hindsight(
        start, ledger, outcome, queue, details, parameters.limit_s, now_s, late=lambda: clock() >= unexplained_s
    )
    decisions = [
        *_decide_queue(queue, ledger, outcome, hindsight, details),
        *_decide_aside(jobs, aside, age),
        *(_invalid(error, job) for job, error in faulty_jobs),
    ]
    errors = [*intake.faults, *faulty_nodes, *(error for _, error in faulty_jobs), *outcome.invalid.values()]
    return Plan(
        policy=policy.name,
        now_s=now_s,
        decisions=tuple(decisions),
        solver=replace(outcome.solver, order_s=order_s, window_s=outcome.window_s),
        metrics=_measure(state, nodes, ledger.with_kept(), decisions, parameters, now_s),
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
    )


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
    known = {node.gpu_type for node in nodes if node.gpu_type} | set(state.gpu_speeds)
    sound: dict[int, Job] = {}
    faulty: list[tuple[Job, InvalidJob]] = []
    for job in state.jobs:
        try:
            check_job(job, known, listed=sound)
            check_speeds(job, suspects)
            sound[job.id] = job
        except InvalidJob as error:
            faulty.append((job, error))
    return list(sound.values()), faulty


def _decide_queue(
    queue: Sequence[Ranked], final: Ledger, outcome: Outcome, hindsight: Hindsight, details: Details
) -> list[Decision]:
    decisions: list[Decision] = []
    for ranked in queue:
        common = Decision(
            job=ranked.job.id,
            result=Result.WAITING,
            reason=None,
            figures={},
            rank=ranked.rank,
            latency_ratio=ranked.latency_ratio,
            wait_s=ranked.job.wait_s,
            age_s=ranked.age_s,
            age_source=ranked.age_source,
            inside_window=ranked.job.id in outcome.window,
            standing=outcome.standing(ranked),
            explain=details,
        )
        chosen = outcome.chosen.get(ranked.job.id)
        error = outcome.invalid.get(ranked.job.id)
        if chosen is not None:
            figures = explain.placed(chosen, final)
            decisions.append(replace(common, result=Result.PLACED, figures=figures, placement=chosen.placement))
        elif error is not None:
            decisions.append(
                replace(common, result=Result.INVALID, reason=Reason.INVALID, figures={"detail": error.detail})
            )
        else:
            why = hindsight.why_waiting(ranked)
            eligible = why.reason not in INELIGIBLE
            decisions.append(replace(common, reason=why.reason, figures=why.figures, eligible=eligible))
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
    fragments = metrics.fragments((job for job in state.jobs if job.id in eligible), final)
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
        waiting_by_reason=dict(sorted(Counter(str(each.reason) for each in waiting).items())),
        live_lr_mean=mean,
        live_lr_max=largest,
        raqlr=raqlr,
        raqlr_jobs=ended,
        raqlr_hours=parameters.raqlr_hours,
    )
