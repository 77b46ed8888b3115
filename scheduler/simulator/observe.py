"""What the scheduler is shown of the simulated cluster: a snapshot with the fields that the portal's has, filled alike."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from scheduler.model import ClusterState, Running

if TYPE_CHECKING:
    from scheduler.model import ArrayHistory, Job
    from scheduler.simulator.cluster import Cluster
    from scheduler.simulator.floor import Floor
    from scheduler.simulator.load import Attempt, Load
    from scheduler.simulator.truth import World


def state_of(floor: Floor, arrays: ArrayHistory, now_s: float) -> ClusterState:
    """The snapshot of this moment."""
    world, cluster = floor.world, floor.cluster
    return ClusterState(
        nodes=list(cluster.nodes.values()),
        jobs=[job_of(load, world, cluster, now_s) for load in floor.waiting.values()],
        running=[running_of(load, world, cluster, now_s) for load in floor.running.values()],
        tenants=world.tenants,
        gpu_speeds=world.gpu_speeds,
        ended=floor.past.recent(now_s),
        history=floor.past.history,
        gpu_weights=world.gpu_weights,
        array_history=arrays,
        knowledge=floor.knowing.knowledge,
    )


def done_fraction(load: Load) -> float:
    """How much of its work the service knows to be done: what instrumented jobs tell, as a planning has it counted."""
    return min(1.0, load.done / load.traced.work) if load.traced.reports else 0.0


def job_of(load: Load, world: World, cluster: Cluster, now_s: float) -> Job:
    """The job as it waits, or of a running one as if it waited."""
    return replace(
        load.traced.job,
        wait_s=load.wait_s(now_s),
        age_s=load.age_s,
        promise=load.promise,
        gave_back=load.gave_back,
        attained_gpu_s=load.gpu_s,
        done_fraction=done_fraction(load),
        most_gpus=max(load.sizes, default=0),
        spans=load.spans,
        checkpoint_domain=_domain(load, world, cluster),
    )


def _domain(load: Load, world: World, cluster: Cluster) -> str | None:
    """Where its checkpoint can be read: on any node, or where its first part runs or ran."""
    if world.shared_storage or not load.starts:
        return load.traced.job.checkpoint_domain
    node = load.checkpoint_node if load.attempt is None else load.attempt.pieces[0].node
    return None if node is None else cluster.nodes[node].domain


def running_of(load: Load, world: World, cluster: Cluster, now_s: float) -> Running:
    """The live attempt. A movable job's description goes with it, whatever sizes it accepts."""
    job, attempt = load.traced.job, load.attempt
    assert attempt is not None
    return Running(
        load.id,
        job.tenant,
        attempt.pieces,
        attempt.started_s,
        job.requirement,
        elastic=job.movable and len(job.requirement) > 1,
        movable=job.movable,
        expected_end_s=expected_end_s(load, attempt, now_s),
        description=job_of(load, world, cluster, now_s) if job.movable else None,
        restarts=load.restarts,
        first_started_s=load.first_started_s,
        restart_s=restart_s(load, world) if load.restarts else None,  # it has been measured
        stopping=attempt.stopping,
    )


def restart_s(load: Load, world: World) -> float:
    """What a restart really costs the job."""
    return world.restart_s if load.traced.restart_s is None else load.traced.restart_s


def expected_end_s(load: Load, attempt: Attempt, now_s: float) -> float | None:
    """As the service expects it: from the job's age and its progress, or less what earlier attempts ran."""
    if not load.age_s:
        return None
    if (done := done_fraction(load)) > 0:
        return now_s + load.age_s * (1.0 - done)
    before_s = load.ran_s if load.traced.job.movable else 0.0
    return attempt.started_s + max(0.0, load.age_s - before_s)
