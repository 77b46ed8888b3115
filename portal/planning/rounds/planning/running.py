"""Live attempts as the scheduler sees them: their resources, for how long yet, and of resizable ones the job itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from portal.work.jobs.models import Allocation, Attempt, Job
from scheduler import model
from scheduler.estimator.lengths import ASSUMED, DECLARED, GUESS_SPREAD, TOLD_SPREAD, Length, length_of
from scheduler.fairness.lrf import BY_SAMPLES


def running_one(parts: Sequence[Any], *, describe: Callable[[Any], model.Job], now_s: float) -> model.Running:
    """Return one live attempt from its parts (in rank order): allocations with `done_fraction` (None: unknown) of the job
    and `gpus_held`, the indices of the GPUs that they hold, or `part_held`, their part of a shared one.

    `describe` makes a job's description.
    """
    done = parts[0].done_fraction or 0.0
    attempt = parts[0].attempt
    job = attempt.job
    if attempt.is_profile:
        return _profile(attempt, parts)
    # A resize from zero, or by a kill in place of a checkpoint, would throw its progress away.
    held = parts[0].part_held
    elastic = held is None and job.checkpointable and len(job.gpus) > 1 and job.overran_epoch is None
    return model.Running(
        job=job.pk,
        tenant=job.tenant_id,
        pieces=tuple(piece_of(part) for part in parts),
        started_s=began_s(attempt),
        requirement=tuple(job.gpus),
        elastic=elastic,
        movable=job.is_requeueable and held is None,  # plannings leave those on shared GPUs where they are
        expected_end_s=expected_end_s(attempt, now_s=now_s, done=done),
        spread=0.0 if job.samples else length_at_start(job).deciding.spread,
        description=_as_if_waiting(parts[0], describe(job), done) if elastic else None,
        restarts=job.preemptions,
        first_started_s=job.started_at.timestamp() if job.started_at else None,
        restart_s=job.restart_s,
        stopping=bool(attempt.stop_reason),
        owner=job.owner_id,
        age_s=None if done or job.time_limit_s else job.age_s,
        ran_s=job.ran_s or 0.0 if job.checkpointable else 0.0,
    )


def length_at_start(job: Job) -> Length:
    """Return the expected run time of a job that has one, as it was known when it first started.

    An earlier version did not keep how sure it was.
    """
    source = job.age_source or (DECLARED if job.expected_duration_s else ASSUMED)
    spread = SPREADS.get(source, GUESS_SPREAD) if job.age_spread is None else job.age_spread
    return Length(job.age_s or 0.0, source, spread, job.age_runs or 0)


SPREADS = {DECLARED: TOLD_SPREAD, BY_SAMPLES: 0.0}


def lengths_of(made: model.Plan, state: model.ClusterState) -> dict[int, Length]:
    """Return the lengths of the jobs that a plan places, as they are known now."""
    placed = {each.job for each in made.placements}
    return {job.id: length_of(job, state.history) for job in state.jobs if job.id in placed}


def _profile(attempt: Attempt, parts: Sequence[Any]) -> model.Running:
    """Return a profile: it is nobody's run, so it goes by an id that no job has."""
    until_s = attempt.created_at.timestamp() + attempt.time_limit_s
    gpu_type = attempt.profile_type.name if attempt.profile_type else ""
    return model.Running(
        job=-attempt.pk,
        tenant=attempt.job.tenant_id,
        pieces=tuple(piece_of(part) for part in parts),
        started_s=began_s(attempt),
        requirement=(attempt.gpus,),
        expected_end_s=until_s,
        stopping=bool(attempt.stop_reason),
        profiled=model.Profiled(attempt.job_id, attempt.profile_of, gpu_type, until_s),
    )


def _as_if_waiting(first: Allocation, job: model.Job, done: float) -> model.Job:
    """Return a running job's description: its checkpoint is being written where its first part runs.

    It keeps the cores that this attempt wanted: the owner's start rule of today is for jobs that start.
    """
    cores = first.attempt.cores_wanted or job.cores
    return replace(job, checkpoint_domain=first.node.storage_domain, done_fraction=done, cores=cores)


def cores_asked(made: model.Plan, state: model.ClusterState) -> dict[int, int]:
    """Return the cores a GPU (of a CPU job: in all) by which a plan placed jobs or promised them something, by job."""
    given = {each.job for each in made.placements} | {each.job for each in made.promises}
    running = (live.description for live in state.running)
    known = (job for job in (*state.jobs, *running) if job is not None)
    return {job.id: job.cores for job in known if job.id in given}


def piece_of(part: Any) -> model.Piece:
    cores = tuple(part.core_ids)
    return model.Piece(part.bay, gpus=part.gpus_held, cores=cores, memory_mib=part.memory_mib, part=part.part_held)


def began_s(attempt: Attempt) -> float:
    return (attempt.started_at or attempt.created_at).timestamp()


def expected_end_s(attempt: Attempt, *, now_s: float, done: float = 0.0) -> float | None:
    """Return when an attempt is expected to end (Unix seconds): by its expected run time, at the latest by its limit.

    With progress, the rest of its expected run time from now on. Without, all of it from its start, less what earlier
    attempts ran when it goes on from a checkpoint. None when neither run time nor limit is known.
    """
    job, ends_s = attempt.job, []
    if job.age_s and done > 0:
        ends_s.append(now_s + job.age_s * (1.0 - done))
    elif job.age_s:
        before_s = job.ran_s if job.checkpointable else 0.0
        ends_s.append(began_s(attempt) + max(0.0, job.age_s - before_s))
    if job.time_limit_s:
        ends_s.append(began_s(attempt) + job.time_limit_s)
    return min(ends_s, default=None)
