"""The scheduler's view of the simulated cluster: a snapshot with the same fields as the portal's, filled in the same way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduler.copies import replace
from scheduler.estimator.lengths import length_of
from scheduler.model import ArrayHistory, ClusterState, Job, Running
from scheduler.simulator.world.truth import World

if TYPE_CHECKING:
    from scheduler.simulator.load import Attempt, Load
    from scheduler.simulator.simulated import SimulatedCluster


def state_of(
    simulated: SimulatedCluster, arrays: ArrayHistory, now_s: float, replanned_s: float | None = None
) -> ClusterState:
    """The snapshot of this moment."""
    cluster = simulated.cluster
    return ClusterState(
        nodes=[cluster.node_now(number) for number in cluster.nodes],
        jobs=[job_of(load, simulated, now_s) for load in simulated.waiting.values()],
        running=running_in(simulated, now_s),
        ended=simulated.past.recent(now_s),
        **beside(simulated, arrays, now_s, replanned_s),
    )


def beside(
    simulated: SimulatedCluster, arrays: ArrayHistory, now_s: float, replanned_s: float | None
) -> dict[str, Any]:
    """The input of a planning beside nodes, waiting and running jobs."""
    world = simulated.world
    return {
        "tenants": world.tenants,
        "gpu_speeds": world.gpu_speeds,
        "history": simulated.past.history,
        "gpu_weights": world.gpu_weights,
        "array_history": arrays,
        "knowledge": simulated.knowing.knowledge,
        "profiles_tried": simulated.profiles.tried(now_s),
        "replanned_s": replanned_s,
    }


def running_in(simulated: SimulatedCluster, now_s: float) -> list[Running]:
    """The running jobs, profiles last."""
    return [*(running_of(load, simulated, now_s) for load in simulated.running.values()), *simulated.profiles.running()]


def done_fraction(load: Load) -> float:
    """The part of a job's work that the service knows to be done, by the reports of instrumented jobs."""
    return min(1.0, load.done / load.traced.work) if load.traced.reports else 0.0


def job_of(load: Load, simulated: SimulatedCluster, now_s: float) -> Job:
    """The job as it waits, or of a running one as if it waited."""
    traced, domain = load.traced, load.traced.job.checkpoint_domain
    if load.starts and not simulated.world.shared_storage:  # only where its first part runs or ran
        node = load.checkpoint_node if load.attempt is None else load.attempt.pieces[0].node
        domain = None if node is None else simulated.cluster.domains[node]
    return replace(
        traced.job,
        saves=traced.job.movable,
        cores=traced.job.cores if load.cores is None else load.cores,
        least_cores=load.least_cores,
        wait_s=load.wait_s(now_s),
        age_s=load.age_s,
        age_guessed=load.age_guessed,
        promise=load.promise,
        gave_back=load.gave_back,
        attained_gpu_s=load.gpu_s,
        done_fraction=done_fraction(load),
        checkpoint_domain=domain,
        instrumented=traced.job.instrumented or (bool(traced.profiles) and simulated.world.profiling_s > 0),
        profiled_since_s=load.profiled_since_s,
        most_gpus=max(load.sizes, default=0),
        restarts=load.restarts,
        restart_s=_measured_restart_s(load, simulated.world),
        spans=load.spans,
    )


def job_now(load: Load, simulated: SimulatedCluster, now_s: float) -> Job:
    """The same as `job_of`, in one object that is used again until an attempt starts or ends; only its waiting is brought up
    to date. Use it during a planning, and do not keep it.
    """
    job = load.described
    if job is None:
        job = load.described = job_of(load, simulated, now_s)
    object.__setattr__(job, "wait_s", load.wait_s(now_s))
    return job


def running_of(load: Load, simulated: SimulatedCluster, now_s: float) -> Running:
    """The live attempt. A movable job's description goes with it."""
    attempt = load.attempt
    assert attempt is not None
    if attempt.shown is None or load.traced.reports:
        attempt.shown = _running(load, attempt, simulated, now_s)
    return attempt.shown


def _running(load: Load, attempt: Attempt, simulated: SimulatedCluster, now_s: float) -> Running:
    job = load.traced.job
    return Running(
        load.id,
        job.tenant,
        attempt.pieces,
        attempt.started_s,
        job.requirement,
        elastic=job.movable and len(job.requirement) > 1,
        movable=job.movable,
        expected_end_s=expected_end_s(load, attempt, now_s),
        spread=0.0 if job.total_samples is not None else length_of(job, simulated.past.history).deciding.spread,
        description=job_of(load, simulated, now_s) if job.movable else None,
        restarts=load.restarts,
        first_started_s=load.first_started_s,
        restart_s=_measured_restart_s(load, simulated.world),
        stopping=attempt.stopping,
        owner=job.owner,
        age_s=None if done_fraction(load) else load.age_s,
        ran_s=load.ran_s if job.movable else 0.0,
    )


def _measured_restart_s(load: Load, world: World) -> float | None:
    return restart_s(load, world) if load.restarts else None


def restart_s(load: Load, world: World) -> float:
    """The seconds that a restart really costs the job."""
    return world.restart_s if load.traced.restart_s is None else load.traced.restart_s


def expected_end_s(load: Load, attempt: Attempt, now_s: float) -> float | None:
    """As the service expects it: from the job's age and its progress, or less the time of earlier attempts."""
    if not load.age_s:
        return None
    if (done := done_fraction(load)) > 0:
        return now_s + load.age_s * (1.0 - done)
    before_s = load.ran_s if load.traced.job.movable else 0.0
    return attempt.started_s + max(0.0, load.age_s - before_s)
