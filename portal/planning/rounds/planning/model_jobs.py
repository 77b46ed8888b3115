"""Jobs of the database as the scheduler's values: those that wait, and those that somebody imagines."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from portal.planning.rounds.planning.aside import IN_TURN, Aside, UnsettledNodes, aside_of, images_refused
from portal.planning.rounds.planning.memory import Beside, KeptJobs, Look
from portal.planning.rounds.planning.queued import QueuedJob, jobs_blocked, waits_of
from portal.planning.rounds.planning.sharing import shared_memory
from portal.planning.rounds.planning.starts import starts_load
from portal.planning.rounds.planning.without_failing_jobs import DETAIL
from portal.work.jobs.models import Job
from portal.work.jobs.use import WHOLE
from scheduler import model
from scheduler.fairness.lrf import is_guess
from scheduler.model.placements import serves

if TYPE_CHECKING:
    from portal.planning.rounds.planning.starts import Starts
    from scheduler.parameters import Parameters


log = logging.getLogger(__name__)


def may_harvest(job: Any) -> bool:
    """Say whether it may hold less GPU memory than it asks for: it can run again, nobody waits for its answers, and it was never
    ended for that.
    """
    return bool(job.is_requeueable and job.latency_class != Job.LatencyClass.LATENCY and not job.gpu_memory_whole)


@dataclass(frozen=True, slots=True)
class Known:
    """The sources of jobs' descriptions beside their rows. `promises`, `profiled` (since when), `apart` (signatures): by job.

    `shared`: by GPU type the memory (MiB) of the largest GPU that jobs may share; {} = none is shared, or sharing is off.
    """

    now_s: float
    starts: Starts
    promises: Mapping[int, model.Promise] = field(default_factory=dict)
    profiled: Mapping[int, datetime] = field(default_factory=dict)
    shared: Mapping[str, int] = field(default_factory=dict)
    apart: Mapping[int, frozenset[str]] = field(default_factory=dict)

    def part(self, job: Any) -> model.GpuPart | None:
        """Return a job's part of a shared GPU; None where it gets GPUs of its own.

        That is so while no shared GPU of a type that it may use has the memory, and where it was promised GPUs.
        """
        if not job.shareable or job.pk in self.promises or job.gpu_compute is None:
            return None
        asked = set(job.gpu_types)
        if max((mib for name, mib in self.shared.items() if serves(asked, name)), default=0) < job.gpu_memory_mib:
            return None
        critical = job.latency_class == Job.LatencyClass.LATENCY
        apart, harvest = self.apart.get(job.pk, frozenset()), may_harvest(job)
        return model.GpuPart(job.gpu_compute, job.gpu_memory_mib, critical=critical, harvest=harvest, apart_from=apart)

    def cores(self, job: Any) -> int:
        """Return the cores a GPU (of a CPU job: in all) that a job is to have: those that it was promised, if any."""
        promise = self.promises.get(job.pk)
        if promise is not None and promise.cores_wanted:
            return promise.cores_wanted
        part = self.part(job)
        return self.starts.cores(job, 1.0 if part is None else part.compute / WHOLE)

    def asked(self, job: Any) -> int | None:
        """Return the cores a GPU that it asked for where others were chosen for it, on GPUs of its own."""
        differs = job.cores_per_gpu and job.cores_per_gpu != self.starts.cores(job) and job.pk not in self.promises
        return job.cores_per_gpu if differs and self.part(job) is None else None

    def profiled_s(self, job_id: int) -> float | None:
        since = self.profiled.get(job_id)
        return None if since is None else since.timestamp()


class Times(NamedTuple):
    """Times of a job's row, in Unix seconds; `since_s`: since when it waits, where its waiting counts."""

    submitted_s: float
    since_s: float | None
    started: bool  # at some time

    def stretch_s(self, now_s: float) -> float:
        """Return how long it has waited without a break."""
        return 0.0 if self.since_s is None else max(0.0, now_s - self.since_s)


def to_model_jobs(look: Look, known: Known, kept: KeptJobs) -> list[model.Job]:
    """Describe the queue: waiting and held jobs. A task waits for all that its array waits for."""
    blocked, unsettled = jobs_blocked(), UnsettledNodes.read(now_s=known.now_s)
    refused = images_refused(look.rows)

    def make(row: QueuedJob) -> model.Job:
        waits = blocked.get(row.pk, blocked.get(row.array_id) if row.array_id else None)
        try:
            aside = aside_of(row, blocked=waits, unsettled=unsettled, refused=refused)
            return to_model_job(row, Times(row.submitted_s, row.waiting_since_s, row.started), known, aside)
        except Exception:
            log.exception("job %d cannot be described, which is a fault of Berth: it is set aside", row.pk)
            return _undescribed(row)

    common = (known.starts, unsettled, known.shared)
    beside = Beside(blocked, known.promises, known.profiled, known.apart, refused, common)
    return kept.describe(look, beside, known.now_s, make)


def _undescribed(row: QueuedJob) -> model.Job:
    """Return a job over which we fail, with the one fact that the others need: it is there."""
    return model.Job(
        id=row.pk,
        tenant=row.tenant_id,
        requirement=(1,),
        submitted_s=row.submitted_s,
        eligible=False,
        ineligible_reason=model.Reason.INVALID,
        ineligible_figures={"detail": DETAIL, "fault": True},
    )


def times_of(job: Any) -> Times:
    """Return the times of a whole row."""
    since = job.waiting_since
    return Times(job.submitted_at.timestamp(), since.timestamp() if since else None, job.started_at is not None)


def to_model_job(job: Any, times: Times, known: Known, aside: Aside = IN_TURN) -> model.Job:
    """Return a row (`Job` or `QueuedJob`) as the scheduler's job. `aside`: why it does not wait for its turn."""
    return model.Job(
        id=job.pk,
        tenant=job.tenant_id,
        requirement=tuple(job.gpus),
        submitted_s=times.submitted_s,
        gpu_types=frozenset(job.gpu_types),
        cores=known.cores(job),
        least_cores=job.cores_per_gpu if job.cores_exactly and job.cores_per_gpu else 1,
        asked_cores=known.asked(job),
        memory_mib=job.memory_mib or 0,
        priority=job.priority,
        wait_s=job.waited_s + times.stretch_s(known.now_s),
        age_s=job.age_s if times.started else None,
        age_guessed=times.started and is_guess(job.samples, job.age_source),
        owner=job.owner_id,
        category=job.category,
        model_label=job.model or None,
        done_fraction=getattr(job, "done_fraction", None) or 0.0,
        expected_duration_s=job.expected_duration_s,
        limit_s=job.time_limit_s,
        total_samples=job.samples,
        eligible=aside.reason is None,
        ineligible_reason=aside.reason,
        ineligible_figures=aside.figures,
        checkpoint_domain=job.checkpoint_domain or None,
        software=job.software_need,
        movable=job.is_requeueable,
        saves=job.checkpointable,
        promise=known.promises.get(job.pk),
        gave_back=job.gave_back,
        attained_gpu_s=job.attained_gpu_s,
        instrumented=job.instrumented,
        profiled_since_s=known.profiled_s(job.pk),
        part=known.part(job),
    )


def unsaved_to_model_job(*, job: Any, blocked: bool, now: datetime, parameters: Parameters) -> model.Job:
    """Return a job that is not stored as a snapshot would have it. `job`: an unsaved row with an id that none has."""
    job.done_fraction = 0.0
    starts = starts_load(parameters, owner_ids=[job.owner_id])
    waits = waits_of(job, blocked=blocked)
    aside = aside_of(job, blocked=waits, unsettled=UnsettledNodes())  # it is new: no restore concerns it
    known = Known(now.timestamp(), starts, shared=shared_memory(parameters))
    return to_model_job(job, times_of(job), known, aside)


def to_new_model_jobs(rows: Sequence[Any], *, now: datetime, parameters: Parameters) -> list[model.Job]:
    """Return stored jobs as a snapshot would have them if they came anew: with nothing run, waited or promised."""
    starts = starts_load(parameters, owner_ids=sorted({row.owner_id for row in rows}))
    known = Known(now.timestamp(), starts, shared=shared_memory(parameters))
    found = (to_model_job(row, times_of(row), known) for row in rows)
    return [
        replace(
            job, wait_s=0.0, age_s=None, done_fraction=0.0, checkpoint_domain=None, gave_back=False, attained_gpu_s=0.0
        )
        for job in found
    ]
