"""Jobs of the database as the scheduler's values: those that wait, and those that somebody imagines."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from portal.jobs.services.tuning import cores_tuned
from portal.jobs.states import JobState
from portal.rounds.planning.memory import Beside
from portal.rounds.planning.queued import jobs_blocked
from portal.rounds.planning.restored import Restored
from scheduler import model
from scheduler.estimator.cores import given_cores, start_cores

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from portal.rounds.planning.memory import KeptJobs
    from portal.rounds.planning.queue_kept import Look
    from portal.rounds.planning.queued import QueuedJob
    from scheduler.parameters import Parameters

    Aside = tuple[model.Reason | None, dict[str, Any]]
    Tuned = Mapping[int, Mapping[str | None, int]]  # owner -> category -> its past jobs' largest tuned cores per GPU


@dataclass(frozen=True, slots=True)
class Known:
    """What waiting jobs are described by beside their rows."""

    now: datetime
    parameters: Parameters
    promises: Mapping[int, model.Promise]
    tuned: Tuned
    profiled: Mapping[int, datetime]


def jobs_described(look: Look, known: Known, kept: KeptJobs) -> list[model.Job]:
    """Describe the queue: waiting and held jobs. A task waits for what its array waits for."""
    blocked, now_s, restored = frozenset(jobs_blocked()), known.now.timestamp(), Restored.read(now=known.now)

    def make(row: QueuedJob) -> model.Job:
        return job_described(
            job=row,
            times=(row.submitted_s, row.waiting_since_s, row.started),
            now_s=now_s,
            parameters=known.parameters,
            tuned=known.tuned,
            promise=known.promises.get(row.pk),
            profiled=known.profiled.get(row.pk),
            aside=_aside(row, blocked=row.pk in blocked or row.array_id in blocked, restored=restored),
        )

    common = (known.tuned, known.parameters.large_model_parameters, restored)
    return kept.describe(look, Beside(blocked, known.promises, known.profiled, common), now_s, make)


def _aside(job: Any, *, blocked: bool, restored: Restored) -> Aside:
    """Return why a job does not wait for its turn, with the figures; (None, {}) when it does."""
    if job.state == JobState.HELD:
        return model.Reason.HELD, {}
    if blocked:
        return model.Reason.DEPENDENCY, {}
    return (model.Reason.RESTORED, restored.figures) if restored.keeps(job) else (None, {})


def times_of(job: Any) -> tuple[float, float | None, bool]:
    """Return submission, since when it waits (Unix seconds), and whether it ever started, of a whole row."""
    since = job.waiting_since
    return job.submitted_at.timestamp(), since.timestamp() if since else None, job.started_at is not None


def job_described(
    *,
    job: Any,
    times: tuple[float, float | None, bool],
    now_s: float,
    parameters: Parameters,
    tuned: Tuned,
    promise: model.Promise | None = None,
    profiled: datetime | None = None,
    aside: Aside = (None, {}),
) -> model.Job:
    submitted_s, since_s, started = times
    reason, figures = aside
    return model.Job(
        id=job.pk,
        tenant=job.tenant_id,
        requirement=tuple(job.gpus),
        submitted_s=submitted_s,
        gpu_types=frozenset(job.gpu_types),
        cores=(promise and promise.cores_wanted) or cores_wanted(job=job, parameters=parameters, tuned=tuned),
        least_cores=job.cores_per_gpu if job.cores_exactly and job.cores_per_gpu else 1,
        memory_mib=job.memory_mib or 0,
        priority=job.priority,
        wait_s=job.waited_s if since_s is None else job.waited_s + max(0.0, now_s - since_s),
        age_s=job.age_s if started else None,
        owner=job.owner_id,
        category=job.category,
        model_label=job.model or None,
        done_fraction=getattr(job, "done_fraction", None) or 0.0,
        expected_duration_s=job.expected_duration_s,
        total_samples=job.samples,
        eligible=reason is None,
        ineligible_reason=reason,
        ineligible_figures=figures,
        checkpoint_domain=job.checkpoint_domain or None,
        movable=job.is_requeueable,
        promise=promise,
        gave_back=job.gave_back,
        attained_gpu_s=job.attained_gpu_s,
        instrumented=job.instrumented,
        profiled_since_s=None if profiled is None else profiled.timestamp(),
    )


def job_imagined(*, job: Any, blocked: bool, now: datetime, parameters: Parameters) -> model.Job:
    """Return what a snapshot would say of a job that is not stored. `job`: an unsaved row with an id that none has."""
    job.done_fraction = 0.0
    tuned = cores_tuned(owner_ids=[job.owner_id])
    aside = _aside(job, blocked=blocked, restored=Restored())  # it is new: no restore concerns it
    return job_described(
        job=job, times=times_of(job), now_s=now.timestamp(), parameters=parameters, tuned=tuned, aside=aside
    )


def jobs_imagined(rows: Sequence[Any], *, now: datetime, parameters: Parameters) -> list[model.Job]:
    """Return what a snapshot would say of stored jobs if they came anew: with nothing run, waited or promised."""
    tuned = cores_tuned(owner_ids=sorted({row.owner_id for row in rows}))
    found = (
        job_described(job=row, times=times_of(row), now_s=now.timestamp(), parameters=parameters, tuned=tuned)
        for row in rows
    )
    return [
        replace(
            job, wait_s=0.0, age_s=None, done_fraction=0.0, checkpoint_domain=None, gave_back=False, attained_gpu_s=0.0
        )
        for job in found
    ]


def cores_wanted(*, job: Any, parameters: Parameters, tuned: Tuned) -> int:
    """Cores a GPU (a CPU job: in all): tuned in an earlier attempt, else asked by the tenant, else section 8's start rule."""
    if list(job.gpus) == [0]:
        return job.cores or 1
    return start_cores(
        category=job.category,
        tuned=tuned.get(job.owner_id, {}),
        given=given_cores(own=getattr(job, "cores_tuned", None), asked=job.cores_per_gpu, exactly=job.cores_exactly),
        pipelined=bool(job.pipelined),
        model_parameters=job.parameters,
        large_model_parameters=parameters.large_model_parameters,
        heavy_between_iterations=bool(job.heavy_between_iterations),
    )
