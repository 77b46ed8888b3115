"""What a planning records of what it decided (algorithms.md section 7, step 9): decisions with reasons, figures, metrics."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import repeat
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from scheduler import metrics
from scheduler.explaining import why as explain
from scheduler.explaining.detail import Details
from scheduler.explaining.why import Hindsight
from scheduler.fairness.keepers import promise_keepers
from scheduler.model import Blocking, Decision, Fault, Kept, Metrics, Plan, Queue, Reason, Result
from scheduler.planning.conservation import beside_fitting
from scheduler.planning.deciding import INELIGIBLE
from scheduler.replan.promises import BOUND_RESTARTS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from scheduler.errors import InvalidJob
    from scheduler.explaining.figures import Why
    from scheduler.fairness.lrf import Age
    from scheduler.model import Clock, ClusterState, Job, Node, Ranked
    from scheduler.parameters import Parameters
    from scheduler.placement.ledger import Ledger
    from scheduler.placement.work import Outcome
    from scheduler.planning import profiling
    from scheduler.planning.conservation import Beside
    from scheduler.planning.deciding import Decided
    from scheduler.planning.inputs import SnapshotInput


def record(
    decided: Decided,
    inputs: SnapshotInput,
    start: Ledger,
    now_s: float,
    parameters: Parameters,
    clock: Clock,
    *,
    began_s: float,
) -> Plan:
    """The plan as the service shows and keeps it. `start`: the ledger as it was before anything was decided."""
    ledger, outcome, queue = inputs.ledger, decided.outcome, decided.queue
    details = Details(start, ledger, outcome, queue, inputs.estimator)
    keepers = promise_keepers(
        outcome, ledger, queue, inputs.state.running,
        now_s=now_s, lapse_s=BOUND_RESTARTS * parameters.restart_cost_s,
    )  # fmt: skip
    hindsight = Hindsight(
        start, ledger, outcome, queue, details, parameters.limit_s, keepers=keepers,
        late=lambda: clock() >= decided.unexplained_s,
    )  # fmt: skip
    decisions = [
        *_decide_queue(queue, ledger, outcome, hindsight, details, decided.profiles),
        *_decide_aside(inputs.jobs, decided.aside, decided.age),
        *(_invalid(error, job) for job, error in inputs.faulty_jobs),
    ]
    reserved = {node: each.job for each in outcome.reservations for node in each.nodes}
    beside = beside_fitting(
        ((ranked.job, decision) for ranked, decision in zip(queue, decisions, strict=False)),
        ledger, outcome.reservations, inputs.estimator, sigma=parameters.sigma, now_s=now_s,
    )  # fmt: skip
    left = _Left(ledger, reserved, beside)
    faulty = [job.id for job, _ in inputs.faulty_jobs if job.promise is not None]
    return Plan(
        policy=decided.policy.name,
        now_s=now_s,
        decisions=tuple(decisions),
        solver=replace(outcome.solver, window_s=outcome.window_s, unseen=len(outcome.out_of_time)),
        metrics=_measure(replace(inputs.state, jobs=inputs.jobs), inputs.nodes, left, decisions, parameters, now_s),
        queue_length=len(queue),
        window_jobs=len(outcome.window),
        window_gpus=outcome.window_gpus,
        windows=tuple(outcome.windows),
        shares=tuple(outcome.shares),
        total_s=clock() - began_s,
        reservations=tuple(Kept(each.job, tuple(sorted(each.nodes)), each.until_s) for each in outcome.reservations),
        stops=tuple(outcome.stops),
        promises=tuple(outcome.promises),
        lapsed=tuple(sorted([*decided.lapsed, *faulty])),
        replan=decided.replan,
        replan_early=decided.round_is_over(now_s),
        window_ran_out=decided.window_ran_out,
        faults=tuple(
            Fault(error.subject, error.key, error.detail) for error in (*inputs.faults, *outcome.invalid.values())
        ),
        profiles=tuple(decided.profiles.orders),
        blocking=_blocking(outcome),
        probes=decided.probes,
    )


def _blocking(outcome: Outcome) -> tuple[Blocking, ...]:
    alone = [] if outcome.blocked_by is None else [Blocking(outcome.blocked_by.job.id, None)]
    return (*alone, *(Blocking(each.job.id, tenant) for tenant, each in outcome.blocked_tenants.items()))


def _decide_queue(
    queue: Sequence[Ranked],
    final: Ledger,
    outcome: Outcome,
    hindsight: Hindsight,
    details: Details,
    profiles: profiling.Profiles,
) -> list[Decision]:
    if isinstance(queue, Queue) and queue and queue[-1].rank == len(queue):
        return _decide_long_queue(queue, final, outcome, hindsight, details, profiles)
    return _decide_each(queue, final, outcome, hindsight, details, profiles)


def _decide_long_queue(
    queue: Queue,
    final: Ledger,
    outcome: Outcome,
    hindsight: Hindsight,
    details: Details,
    profiles: profiling.Profiles,
) -> list[Decision]:
    """The same as `_decide_each`: what nothing tells apart is answered together, and the rest in its place."""
    number, whys = hindsight.in_common(queue, {*outcome.chosen, *outcome.invalid, *profiles.waiting})
    eligible = [why.reason not in INELIGIBLE for why in whys]
    standings = {kind: outcome.standing_of_kind(head.job, inside=False) for kind, head in queue.heads.items()}
    common = np.flatnonzero(number >= 0)
    which = number[common].tolist()
    ranked = [queue[place] for place in common.tolist()]
    alike = map(
        Decision,
        queue.ids[common].tolist(),
        repeat(Result.WAITING),
        [whys[each].reason for each in which],
        [whys[each].figures for each in which],
        (common + 1).tolist(),
        [each.latency_ratio for each in ranked],
        queue.columns["waits_s"][common].tolist(),
        [each.age_s for each in ranked],
        [each.age_source for each in ranked],
        repeat(False),
        [eligible[each] for each in which],
        repeat(None),
        map(standings.__getitem__, queue.kinds[common].tolist()),
        repeat(details),
    )
    apart = [queue[place] for place in np.flatnonzero(number < 0).tolist()]
    others = iter(_decide_each(apart, final, outcome, hindsight, details, profiles))
    return [next(alike) if each else next(others) for each in (number >= 0).tolist()]


def _decide_each(
    queue: Sequence[Ranked],
    final: Ledger,
    outcome: Outcome,
    hindsight: Hindsight,
    details: Details,
    profiles: profiling.Profiles,
) -> list[Decision]:
    decisions: list[Decision] = []
    chosen_of, invalid, measured_of, window = outcome.chosen, outcome.invalid, profiles.waiting, outcome.window
    for ranked in queue:
        job = ranked.job
        job_id = job.id
        result, placement, eligible = Result.WAITING, None, False
        if (chosen := chosen_of.get(job_id)) is not None:
            result, placement = Result.PLACED, chosen.placement
            reason, figures = None, explain.placed(chosen, final)
        elif (error := invalid.get(job_id)) is not None:
            result = Result.INVALID
            reason, figures = Reason.INVALID, {"detail": error.detail}
        elif (measured := measured_of.get(job_id)) is not None:
            reason, figures, eligible = Reason.PROFILING, measured, True
        else:
            why = hindsight.why_waiting(ranked)
            reason, figures = why.reason, why.figures
            eligible = reason not in INELIGIBLE
        decisions.append(
            Decision(
                job_id, result, reason, figures, ranked.rank, ranked.latency_ratio, job.wait_s, ranked.age_s,
                ranked.age_source, job_id in window, eligible, placement, outcome.standing(ranked), details,
            )
        )  # fmt: skip
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


class _Left(NamedTuple):
    """What a plan leaves idle: what is promised withheld, the reserved nodes and their jobs, and what fits who waits."""

    ledger: Ledger
    reserved: Mapping[int, int]
    beside: Beside


def _measure(
    state: ClusterState,
    nodes: Sequence[Node],
    left: _Left,
    decisions: Sequence[Decision],
    parameters: Parameters,
    now_s: float,
) -> Metrics:
    waiting = [decision for decision in decisions if decision.result is Result.WAITING]
    eligible = [decision for decision in waiting if decision.eligible]
    reasons = Counter(map(attrgetter("reason"), waiting))
    # A job that is being profiled leaves nothing idle for want of a place.
    wanting = {each.job for each in eligible if each.reason is not Reason.PROFILING}
    fragments = metrics.fragments((job for job in state.jobs if job.id in wanting), left.ledger, left.reserved)
    final = left.ledger.with_kept()
    gpus, cores = metrics.allocated(nodes, final)
    gpus_total, cores_total = sum(node.gpus_total for node in nodes), sum(node.cores_total for node in nodes)
    mean, largest = metrics.live_latency_ratio([each.latency_ratio or 0.0 for each in eligible])
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
        fragments_kept=fragments.kept,
        fragment_rate=metrics.rate(fragments.total, gpus_total),
        # An operator who forbids borrowing wants walls: what idles behind one does so on purpose.
        idle_beside_fitting=left.beside.gpus if parameters.borrowing == "on" else None,
        queue_length=len(eligible),
        waiting_by_reason=dict(sorted((str(name), n) for name, n in reasons.items())),
        live_lr_mean=mean,
        live_lr_max=largest,
        raqlr=raqlr,
        raqlr_jobs=ended,
        raqlr_hours=parameters.raqlr_hours,
    )
