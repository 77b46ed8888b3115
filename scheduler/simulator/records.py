"""The records of a simulation: one for each job and one for each planning, made by the engine (algorithms.md sections 10 and 13).

The report is computed only from these.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scheduler.metrics import wanted_types
from scheduler.model.placements import serves

if TYPE_CHECKING:
    from scheduler.planning.decided import Decided
    from scheduler.simulator.load import Load
    from scheduler.simulator.simulated import SimulatedCluster


@dataclass(frozen=True, slots=True)
class JobRecord:
    """The life of a job. Times are seconds on the virtual clock; None = it did not happen."""

    job: int
    name: str
    tenant: int
    category: str | None
    requirement: tuple[int, ...]
    submitted_s: float
    started_s: float | None  # of its first attempt
    ended_s: float | None
    state: str  # COMPLETED | FAILED | UNFINISHED | INVALID
    wait_s: float  # eligible and not running, over all attempts
    age_s: float | None  # expected run time as the scheduler fixed it at the first start: LR = wait_s / age_s
    ran_s: float  # running, over all attempts, restarts included
    gpu_s: float  # GPU-seconds held
    restarts: int
    gpus_first: int  # size of the first attempt
    gpus_mean: float  # time-weighted over its attempts
    ideal_s: float | None  # its time on an equal part of the cluster (finish-time fairness): see `report`
    cores: int | None = None  # a GPU, as the service chose at last; None = as its tenant asked


@dataclass(frozen=True, slots=True)
class PlanningRecord:
    """The cluster as a planning left it, until the next record. `solve_s` is wall time."""

    at_s: float
    replan: bool
    queue_gpu_jobs: int  # eligible and still waiting, asking for GPUs
    queue_cpu_jobs: int
    gpus_allocated: int
    cores_allocated: int
    fragments: int  # all kinds (section 10)
    placed: int
    stopped: int
    rate: float  # work done a second, in the units of the trace's laws over the job's mean: see `report`
    solve_s: float  # the whole planning
    gap: float | None = None
    fragments_cores: int = 0  # of them those of the first kind: idle for want of cores
    fragments_kept: int = 0  # of them those that a reservation or a promise keeps for another job


@dataclass(frozen=True, slots=True)
class Run:
    """One policy's simulation. `ended_s`: when the last job ended or the simulation was cut off."""

    policy: str
    seed: int
    gpus_total: int
    cores_total: int
    tick_s: float
    replan_s: float
    jobs: Sequence[JobRecord]
    plannings: Sequence[PlanningRecord]
    ended_s: float
    parameters: Mapping[str, object] = field(default_factory=dict)


def planning_record(
    simulated: SimulatedCluster, decided: Decided, ineligible: Collection[int], now_s: float, solve_s: float
) -> PlanningRecord:
    """The record of a planning. `ineligible`: jobs whose waiting the cluster does not cause."""
    outcome = decided.outcome
    without = [simulated.waiting[number] for number in ineligible if number in simulated.waiting]
    cpu_jobs = simulated.cpu_waiting - sum(load.traced.job.is_cpu for load in without)
    idle, asked = simulated.cluster.idle_by_type, _asked(simulated, decided, ineligible)
    return PlanningRecord(
        at_s=now_s,
        replan=decided.replan,
        queue_gpu_jobs=len(simulated.waiting) - len(without) - cpu_jobs,
        queue_cpu_jobs=cpu_jobs,
        gpus_allocated=simulated.cluster.gpus_held,
        cores_allocated=simulated.cluster.cores_held,
        fragments=sum(idle[name] for name in wanted_types(asked, idle)) if asked else 0,
        placed=len(outcome.draft.chosen),
        stopped=len(outcome.draft.stops),
        rate=simulated.rate,
        solve_s=solve_s,
        gap=outcome.solver.gap,
        fragments_cores=simulated.gpus_short_of_cores(),
        fragments_kept=_kept(simulated, decided, ineligible),
    )


def _kept(simulated: SimulatedCluster, decided: Decided, ineligible: Collection[int]) -> int:
    """The fragments that reservations and promises keep, on nodes with enough GPUs for some waiting job."""
    outcome, capacities = decided.outcome, decided.inputs.ledger.free
    reserved = {node for each in outcome.reservations for node in each.nodes}
    given = [*(each.shares for each in outcome.promised.values()), *(each.shares for each in outcome.draft.promises)]
    nodes = reserved | {share.node for shares in given for share in shares}
    holders = (
        {each.job for each in outcome.reservations} | outcome.promised.keys() | {e.job for e in outcome.draft.promises}
    )
    asked = _asked(simulated, decided, {*ineligible, *holders}) if nodes else ()
    found = 0
    for free in (capacities[node] for node in nodes if node in capacities):
        gpus = len(free.kept.gpus) + (len(free.gpus) if free.node.id in reserved else 0)
        if any(least <= gpus and serves(types, free.node.gpu_type) for least, types in asked):
            found += gpus
    return found


def _asked(
    simulated: SimulatedCluster, decided: Decided, without: Collection[int]
) -> Collection[tuple[int, frozenset[str]]]:
    """R_1 and allowed types of the jobs whose waiting the cluster causes."""
    asked: Collection[tuple[int, frozenset[str]]] = simulated.wanting
    apart = {*without, *decided.measuring.profiles.waiting}
    if apart:
        others = (load.traced.job for number, load in simulated.waiting.items() if number not in apart)
        asked = {(job.min_gpus, job.gpu_types) for job in others if not job.is_cpu}
    return asked


def job_record(load: Load, now_s: float) -> JobRecord:
    job, attempt = load.traced.job, load.attempt
    running_s = now_s - attempt.started_s if attempt is not None else 0.0
    ran_s = load.ran_s + running_s
    gpu_s = load.gpu_s + running_s * (attempt.gpus if attempt is not None else 0)
    return JobRecord(
        job=load.id,
        name=load.traced.name,
        tenant=job.tenant,
        category=job.category,
        requirement=job.requirement,
        submitted_s=job.submitted_s,
        started_s=load.first_started_s,
        ended_s=load.ended_s,
        state=load.state,
        wait_s=load.wait_s(now_s),
        age_s=load.age_s,
        ran_s=ran_s,
        gpu_s=gpu_s,
        restarts=load.restarts,
        gpus_first=load.gpus_first,
        gpus_mean=gpu_s / ran_s if ran_s else 0.0,
        ideal_s=load.ideal_s,
        cores=load.cores,
    )
