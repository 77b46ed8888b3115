"""Stops that a planning orders: the attempt is asked to end, its job waits again, and neither retries nor requeues count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.db.models import Avg, F
from django.utils import timezone

from portal.work.jobs.models import Allocation, Attempt, Job
from portal.work.jobs.selectors import ANOTHERS
from portal.work.jobs.services.control import attempt_stop
from portal.work.jobs.services.events import event_record
from portal.work.jobs.sizes import grace_of
from portal.work.jobs.states import AttemptState, StopCause, StopReason
from portal.work.jobs.use import WHOLE

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True)
class Stop:
    """Job `job_id` is to stop: for another (`for_job`), or to go on with `to_gpus` GPUs; 0 = it waits for its turn."""

    job_id: int
    cause: StopCause
    for_job: int | None
    to_gpus: int


def stops_nodes(*, job_ids: Iterable[int]) -> list[int]:
    """Return the nodes on which these jobs have live parts. The stops will lock their rows."""
    wanted = list(job_ids)
    if not wanted:
        return []
    held = Allocation.objects.filter(attempt__job__in=wanted, attempt__ended_at=None, released_at=None)
    return list(held.order_by().values_list("node_id", flat=True).distinct())


def attempt_preempt(*, stop: Stop, planning_number: int) -> bool:
    """Ask a job's live attempt to stop; False when there is none, it is being stopped, or the job may not run again.

    The caller holds the locks of the job and of its nodes. The job's end comes as a report, and it then waits again.
    """
    live = Attempt.objects.runs().live().filter(job_id=stop.job_id, stop_reason="")
    attempt = live.select_related("job").first()
    if attempt is None or not attempt.job.is_requeueable or attempt.job.cancel_requested_at:
        return False
    wanted = Job.objects.filter(pk=stop.for_job).first() if stop.for_job else None
    Attempt.objects.filter(pk=attempt.pk, ended_at=None).update(
        stop_cause=stop.cause, stop_for=wanted, stop_to_gpus=stop.to_gpus
    )
    attempt_stop(job_id=stop.job_id, reason=StopReason.PREEMPT)
    text = f"{stop_words(attempt=attempt, cause=stop.cause, wanted=wanted, to_gpus=stop.to_gpus)}, planning {planning_number}."
    event_record(job_id=stop.job_id, kind="stop-ordered", text=text, epoch=attempt.epoch)
    return True


def stop_words(*, attempt: Attempt, cause: str, wanted: Job | None, to_gpus: int | None) -> str:
    """Say why a planning stopped an attempt. Its own tenant reads this, so another tenant's job has no number."""
    if cause == StopCause.RESIZE:
        return f"Stopped to go on with {to_gpus} GPU{'' if to_gpus == 1 else 's'} in place of {attempt.gpus}"
    if cause == StopCause.MOVE:
        return "Stopped to go on elsewhere"
    word = "Called back" if cause == StopCause.CALL_BACK else "Stopped"
    if wanted is None:
        return f"{word} for other jobs"
    return f"{word} for {f'job {wanted.number}' if wanted.tenant_id == attempt.job.tenant_id else ANOTHERS}"


def overran_note(*, attempt: Attempt) -> None:
    """Note that an attempt which a planning or a person stopped, to run on later, had to be killed: its job is not resized again.

    Its last progress is lost then, and other jobs waited for its GPUs; a resize is to cost a job neither.
    """
    fresh = Attempt.objects.select_related("job").get(pk=attempt.pk)
    if fresh.is_profile or fresh.stop_reason not in {StopReason.PREEMPT, StopReason.REQUEUE}:
        return
    grace_s = grace_of(fresh.job)
    text = f"Attempt {fresh.epoch} did not stop within its grace of {grace_s} s and was killed"
    if Job.objects.filter(pk=fresh.job_id).exclude(overran_epoch=fresh.epoch).update(overran_epoch=fresh.epoch):
        again = "; it is not resized again" if fresh.job.checkpointable and len(fresh.job.gpus) > 1 else ""
        event_record(job_id=fresh.job_id, kind="overran", text=f"{text}{again}.", epoch=fresh.epoch)


def use_count(*, attempt: Attempt) -> None:
    """Add an attempt that just ended to its job's run time and GPU-seconds (the priority LAS, expected ends)."""
    if attempt.started_at is None or attempt.ended_at is None:
        return
    ran_s = max(0.0, (attempt.ended_at - attempt.started_at).total_seconds())
    gpus = attempt.gpus if attempt.gpu_compute is None else attempt.gpu_compute / WHOLE
    Job.objects.filter(pk=attempt.job_id).update(
        ran_s=F("ran_s") + ran_s, attained_gpu_s=F("attained_gpu_s") + gpus * ran_s
    )


def restart_measure(*, attempt: Attempt) -> None:
    """Store what the stop before this attempt cost its job, now that it runs again: S of algorithms.md section 6.

    The cost is the time from the order to stop until the job runs again. When it was stopped for other jobs, its time in
    the queue is left out: that is waiting, and not the price of a restart.
    """
    before = Attempt.objects.runs().filter(job_id=attempt.job_id, epoch=attempt.epoch - 1).first()
    if before is None or before.state != AttemptState.PREEMPTED or before.stop_at is None or before.ended_at is None:
        return
    lost = timezone.now() - before.stop_at
    if before.stop_cause not in {StopCause.RESIZE, StopCause.MOVE}:
        lost -= attempt.created_at - before.ended_at
    Attempt.objects.filter(pk=attempt.pk).update(restart_s=max(0.0, lost.total_seconds()))
    mean = Attempt.objects.filter(job_id=attempt.job_id).aggregate(mean=Avg("restart_s"))["mean"]
    Job.objects.filter(pk=attempt.job_id).update(restart_s=mean)
