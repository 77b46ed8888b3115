"""The record of a planning (algorithms.md section 7, step 9): decisions with reasons, figures, metrics."""

from __future__ import annotations

import math
from collections import Counter
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from scheduler import metrics
from scheduler.copies import replace
from scheduler.estimator.lengths import SURE_SPREAD
from scheduler.explaining.detail import Details
from scheduler.explaining.why import Hindsight
from scheduler.fairness.keeping import promise_keepers
from scheduler.model import Blocking, Clock, ClusterState, Decision, Fault, Kept, Metrics, Node, Plan, Reason, Result
from scheduler.planning.conservation import Beside, beside_fitting
from scheduler.planning.decided import Decided, decide_aside, decide_invalid, decide_queue
from scheduler.replan.promises import BOUND_RESTARTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from scheduler.parameters import Parameters
    from scheduler.placement.ledger import Ledger
    from scheduler.placement.outcome import Outcome
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
    ledger, outcome = inputs.ledger, decided.outcome
    details = Details(start, ledger, outcome, decided.line.queue, inputs.estimator)
    hindsight = _hindsight(decided, inputs, start, details, now_s, parameters, clock)
    decisions = [
        *decide_queue(decided, ledger, hindsight, details),
        *decide_aside(inputs.jobs, decided.line.aside, decided.line.age),
        *(decide_invalid(error, job) for job, error in inputs.faulty_jobs),
    ]
    left = _left(decided, inputs, decisions, now_s, parameters)
    lapsed = (job.id for job, _ in inputs.faulty_jobs if job.promise is not None)
    faults = (*inputs.faults, *outcome.draft.invalid.values())
    return Plan(
        now_s=now_s,
        decisions=tuple(decisions),
        metrics=_measure(replace(inputs.state, jobs=inputs.jobs), inputs.nodes, left, decisions, parameters, now_s),
        total_s=clock() - began_s,
        lapsed=tuple(sorted([*decided.lapsed, *lapsed])),
        faults=tuple(Fault(error.subject, error.key, error.detail) for error in faults),
        **_of_decided(decided, now_s),
        **_of_outcome(outcome),
    )


def _of_decided(decided: Decided, now_s: float) -> dict[str, Any]:
    """The plan's fields from the decisions."""
    return {
        "policy": decided.policy.name,
        "queue_length": len(decided.line.queue),
        "replan": decided.replan,
        "replan_early": decided.round_is_over(now_s),
        "window_ran_out": decided.window_ran_out,
        "profiles": tuple(decided.measuring.profiles.orders),
        "probes": decided.measuring.probes,
        "harvests": decided.measuring.sharing.harvests,
        "sharing": decided.measuring.sharing if decided.measuring.sharing.asked is not None else None,
    }


def _of_outcome(outcome: Outcome) -> dict[str, Any]:
    """The plan's fields from the policy's outcome."""
    draft, standings, obstacles = outcome.draft, outcome.standings, outcome.obstacles
    blocking = [] if obstacles.blocked_by is None else [Blocking(obstacles.blocked_by.job.id, None)]
    blocking += [Blocking(each.job.id, tenant) for tenant, each in obstacles.blocked_tenants.items()]
    return {
        "solver": replace(outcome.solver, window_s=standings.window_s, unseen=len(obstacles.out_of_time)),
        "window_jobs": len(standings.window),
        "window_gpus": standings.window_gpus,
        "windows": tuple(standings.windows),
        "shares": tuple(standings.shares),
        "reservations": tuple(Kept(each.job, tuple(sorted(each.nodes)), each.until_s) for each in outcome.reservations),
        "stops": tuple(draft.stops),
        "promises": tuple(draft.promises),
        "blocking": tuple(blocking),
    }


def _hindsight(
    decided: Decided,
    inputs: SnapshotInput,
    start: Ledger,
    details: Details,
    now_s: float,
    parameters: Parameters,
    clock: Clock,
) -> Hindsight:
    """The reasons why jobs wait. After `decided.unexplained_s` it gives only reasons that need no search."""
    outcome, queue = decided.outcome, decided.line.queue
    keepers = promise_keepers(
        outcome.promised,
        outcome.draft.promises,
        inputs.ledger,
        queue,
        inputs.state.running,
        now_s=now_s,
        lapse_s=BOUND_RESTARTS * parameters.restart_cost_s,
    )
    return Hindsight(
        start,
        inputs.ledger,
        outcome,
        queue,
        details,
        parameters.limit_s,
        keepers=keepers,
        late=lambda: clock() >= decided.unexplained_s,
    )


def _left(
    decided: Decided, inputs: SnapshotInput, decisions: Sequence[Decision], now_s: float, parameters: Parameters
) -> _Left:
    reservations = decided.outcome.reservations
    beside = beside_fitting(
        (
            (
                ranked.job,
                replace(decision, age_s=math.inf) if reservations and ranked.spread > SURE_SPREAD else decision,
            )
            for ranked, decision in zip(decided.line.queue, decisions, strict=False)
        ),
        inputs.ledger,
        reservations,
        inputs.estimator,
        sigma=parameters.sigma,
        now_s=now_s,
    )
    reserved = {node: each.job for each in reservations for node in each.nodes}
    in_use = {(node.id, gpu.index) for node in inputs.nodes for gpu in node.shared if gpu.holders}
    for chosen in decided.measuring.sharing.chosen.values():
        in_use |= {(piece.node, piece.part.gpu) for piece in chosen.placement.pieces if piece.part is not None}
    return _Left(inputs.ledger, reserved, beside, frozenset(in_use))


class _Left(NamedTuple):
    """The idle resources after a plan: the ledger without promised ones, node -> the job it is reserved for, and the GPUs that a
    waiting job fits.
    """

    ledger: Ledger
    reserved: Mapping[int, int]
    beside: Beside
    shared: frozenset[tuple[int, int]]  # node and index of the shared GPUs in use


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
    # A job that is being profiled does not wait for a place, and one that shares a GPU for no idle one.
    wanting = {each.job for each in eligible if each.reason is not Reason.PROFILING}
    fragments = metrics.fragments(
        (job for job in state.jobs if job.id in wanting and job.part is None), left.ledger, left.reserved
    )
    mean, largest = metrics.live_latency_ratio([each.latency_ratio or 0.0 for each in eligible])
    raqlr, ended = metrics.raqlr(state.ended, now_s, parameters.raqlr_hours)
    return Metrics(
        fragments_cores=fragments.short_of_cores,
        fragments_scattered=fragments.scattered,
        fragments_kept=fragments.kept,
        fragment_rate=metrics.rate(fragments.total, sum(node.gpus_there for node in nodes)),
        # Without borrowing GPUs are idle beside jobs of another array on purpose.
        idle_beside_fitting=left.beside.gpus if parameters.borrowing == "on" else None,
        queue_length=len(eligible),
        waiting_by_reason=dict(sorted((str(name), n) for name, n in reasons.items())),
        live_lr_mean=mean,
        live_lr_max=largest,
        raqlr=raqlr,
        raqlr_jobs=ended,
        raqlr_hours=parameters.raqlr_hours,
        **_held(nodes, left.ledger.with_kept(), left.shared),
    )


def _held(nodes: Sequence[Node], final: Ledger, shared: AbstractSet[tuple[int, int]]) -> dict[str, Any]:
    """The metrics of held GPUs and cores. `final`: the ledger after the plan, promised resources included; `shared`: the shared
    GPUs in use, each once.
    """
    gpus, cores = metrics.allocated(nodes, final)
    gpus += len(shared)
    up = {(free.node.id, gpu.index) for free in final.free.values() for gpu in free.node.shared}
    gpus_total, cores_total = sum(node.gpus_there for node in nodes), sum(node.cores_total for node in nodes)
    return {
        "gpus_total": gpus_total,
        "gpus_allocated": gpus,
        "gpus_idle": final.idle_gpus,
        "gpus_for_sharing": len(up - shared),
        "cores_total": cores_total,
        "cores_allocated": cores,
        "gpu_active_rate": metrics.rate(gpus, gpus_total),
        "cpu_active_rate": metrics.rate(cores, cores_total),
    }
