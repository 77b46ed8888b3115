"""People's deeds on jobs: cancel, hold, release, requeue, change the priority within the tenant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import transaction
from django.utils import timezone

from portal.cluster.services.contact import node_touch
from portal.foundation.errors import BerthError, Conflict
from portal.foundation.events.services import node_wake, page_event, plan_nudge
from portal.people.tenants.selectors import ceiling_check, work_check
from portal.people.tenants.services import audit_record
from portal.work.jobs.declaration.table import PRIORITY_LIMIT
from portal.work.jobs.models import Attempt, Job
from portal.work.jobs.services.changes import array_refresh, job_move
from portal.work.jobs.services.events import event_record
from portal.work.jobs.services.locks import road_lock
from portal.work.jobs.services.waiting import promises_withdraw
from portal.work.jobs.states import FINAL, LIVE, QUEUED, JobState, StopReason

if TYPE_CHECKING:
    from collections.abc import Iterable

    from portal.people.tenants.models import User


def _refuse_ended(job: Job, verb: str) -> None:
    if job.state in FINAL:
        raise Conflict("terminal_state", f"Job {job.number} has ended ({job.state}); there is nothing to {verb}.")


def _locked(job: Job) -> Job:
    """Lock a job and all rows that a change of it may touch (an array: its unfinished tasks too); return it fresh."""

    def wanted() -> list[int]:
        tasks = Job.objects.filter(array=job.pk).exclude(state__in=FINAL)
        return [job.pk, *tasks.values_list("pk", flat=True)]

    road_lock(jobs=wanted)
    return Job.objects.select_related("tenant").get(pk=job.pk)


def attempt_stop(*, job_id: int, reason: StopReason) -> bool:
    """Ask the nodes of a job's live attempt to stop it; return whether there is one. The end comes as a report."""
    attempt = Attempt.objects.runs().live().filter(job_id=job_id).first()
    if attempt is None:
        return False
    if attempt.stop_reason in {"", StopReason.PREEMPT} or reason == StopReason.CANCEL:
        Attempt.objects.filter(pk=attempt.pk, ended_at=None).update(stop_reason=reason, stop_at=timezone.now())
    nodes_wake(attempt=attempt)
    return True


def profiles_stop(*, profiles: Iterable[Attempt], reason: StopReason) -> int:
    """Ask the nodes of live profiles to stop them; return how many were asked. Their jobs stay as they are."""
    asked = 0
    for attempt in profiles:
        live = Attempt.objects.profiles().live().filter(pk=attempt.pk, stop_reason="")
        if live.update(stop_reason=reason, stop_at=timezone.now()):
            nodes_wake(attempt=attempt)
            asked += 1
    return asked


def nodes_wake(*, attempt: Attempt) -> None:
    """Bump the revision of the nodes that hold parts of an attempt, and wake their long polls."""
    for node_id in attempt.allocations.filter(released_at=None).values_list("node_id", flat=True):
        node_touch(node_id=node_id)
        node_wake(node_id=node_id)


@transaction.atomic
def job_cancel(*, job: Job, actor: User | None) -> Job:
    """Cancel a job that has not ended: a waiting one at once, a live one once its node has stopped it."""
    work_check(actor, job.tenant)
    job = _locked(job)
    _refuse_ended(job, "cancel")
    Job.objects.filter(pk=job.pk).update(cancel_requested_at=timezone.now())
    name = actor.username if actor else "Berth"
    if job.array_size:
        Job.objects.filter(array=job, retry_asked_at__isnull=False).update(retry_asked_at=None)
        Job.objects.filter(pk=job.pk).update(array_retries=0)
        for task in Job.objects.filter(array=job).exclude(state__in=FINAL):
            _cancel_one(job=task, text=f"Cancelled with its array by {name}.", actor=actor)
        array_refresh(array_id=job.pk)
    else:
        _cancel_one(job=job, text=f"Cancelled by {name}.", actor=actor)
    audit_record(actor=actor, action="job.cancel", target=f"job:{job.pk}", tenant=job.tenant)
    page_event(stream=f"job:{job.pk}", topic="job", id=job.pk)
    job.refresh_from_db()
    return job


def _cancel_one(*, job: Job, text: str, actor: User | None) -> None:
    Job.objects.filter(pk=job.pk, cancel_requested_at=None).update(cancel_requested_at=timezone.now())
    promises_withdraw(job_ids=[job.pk])
    profiles_stop(profiles=Attempt.objects.profiles().live().filter(job=job), reason=StopReason.CANCEL)
    if attempt_stop(job_id=job.pk, reason=StopReason.CANCEL):
        event_record(job_id=job.pk, kind="cancel-asked", text=text, epoch=job.epoch, actor=actor)
        return
    job_move(job_id=job.pk, to=JobState.CANCELLED, text=text, actor=actor, only_from=QUEUED)


@transaction.atomic
def job_hold(*, job: Job, actor: User) -> Job:
    """Keep a waiting job from starting. For an array: its waiting tasks, and those not made yet."""
    work_check(actor, job.tenant)
    job = _locked(job)
    _refuse_ended(job, "hold")
    text = f"Held by {actor.username}."
    if job.array_size:
        Job.objects.filter(pk=job.pk).update(state=JobState.HELD, held_by=actor.username, reason="held")
        tasks = Job.objects.filter(array=job, state=JobState.PENDING)
        for task_id in tasks.values_list("pk", flat=True):
            job_move(job_id=task_id, to=JobState.HELD, text=text, actor=actor, held_by=actor.username, reason="held")
        event_record(job_id=job.pk, kind="held", text=text, actor=actor)
        page_event(stream="cluster", topic="job")
        page_event(stream=f"job:{job.pk}", topic="job", id=job.pk)
    elif not job_move(job_id=job.pk, to=JobState.HELD, text=text, actor=actor, held_by=actor.username, reason="held"):
        raise Conflict("not_waiting", f"Job {job.number} is {job.state}; only a waiting job can be held.")
    audit_record(actor=actor, action="job.hold", target=f"job:{job.pk}", tenant=job.tenant)
    job.refresh_from_db()
    return job


@transaction.atomic
def job_release(*, job: Job, actor: User) -> Job:
    work_check(actor, job.tenant)
    job = _locked(job)
    _refuse_ended(job, "release")
    text = f"Released by {actor.username}."
    fields = {"held_by": "", "reason": "not-planned-yet"}
    if job.array_size and job.state == JobState.HELD:
        Job.objects.filter(pk=job.pk).update(state=JobState.PENDING, **fields)
        for task_id in Job.objects.filter(array=job, state=JobState.HELD).values_list("pk", flat=True):
            job_move(job_id=task_id, to=JobState.PENDING, text=text, actor=actor, only_from={JobState.HELD}, **fields)
        array_refresh(array_id=job.pk)
        event_record(job_id=job.pk, kind="released", text=text, actor=actor)
        page_event(stream="cluster", topic="job")
        page_event(stream=f"job:{job.pk}", topic="job", id=job.pk)
    elif not job_move(
        job_id=job.pk,
        to=JobState.PENDING,
        text=text,
        kind="released",
        actor=actor,
        only_from={JobState.HELD},
        **fields,
    ):
        raise Conflict("not_held", f"Job {job.number} is {job.state}; only a held job can be released.")
    audit_record(actor=actor, action="job.release", target=f"job:{job.pk}", tenant=job.tenant)
    plan_nudge()
    job.refresh_from_db()
    return job


@transaction.atomic
def job_requeue(*, job: Job, actor: User) -> Job:
    """Stop a live job and let it wait again. Its tenant must have said that it may run more than once."""
    work_check(actor, job.tenant)
    job = _locked(job)
    _refuse_ended(job, "requeue")
    if job.array_size:
        raise Conflict("array", "Requeue single tasks of an array, not the whole of it.")
    if job.state in QUEUED:
        raise Conflict("not_running", f"Job {job.number} waits already; there is nothing to requeue.")
    if not job.is_requeueable:
        raise Conflict(
            "not_requeueable",
            f"Job {job.number} is neither checkpointable nor restartable; cancel it and submit it again.",
        )
    attempt_stop(job_id=job.pk, reason=StopReason.REQUEUE)
    event_record(
        job_id=job.pk, kind="requeue-asked", text=f"Requeued by {actor.username}.", epoch=job.epoch, actor=actor
    )
    audit_record(actor=actor, action="job.requeue", target=f"job:{job.pk}", tenant=job.tenant)
    job.refresh_from_db()
    return job


@transaction.atomic
def job_priority_set(*, job: Job, actor: User, priority: int) -> Job:
    work_check(actor, job.tenant)
    job = _locked(job)
    _refuse_ended(job, "reorder")
    ceiling_check(user=actor, tenant=job.tenant, priority=priority)
    if not -PRIORITY_LIMIT <= priority <= PRIORITY_LIMIT:
        raise BerthError(
            "out_of_range", f"`priority` must lie between -{PRIORITY_LIMIT} and {PRIORITY_LIMIT}.", field="priority"
        )
    if job.state in LIVE and not job.array_size:
        raise Conflict("not_waiting", f"Job {job.number} runs; priority orders waiting jobs only.")
    ids = [job.pk, *job.tasks.filter(state__in=QUEUED).values_list("pk", flat=True)]
    Job.objects.filter(pk__in=ids).update(priority=priority)
    event_record(
        job_id=job.pk, kind="priority", text=f"Priority {job.priority} -> {priority} by {actor.username}.", actor=actor
    )
    audit_record(
        actor=actor,
        action="job.priority",
        target=f"job:{job.pk}",
        tenant=job.tenant,
        detail={"from": job.priority, "to": priority},
    )
    plan_nudge()
    job.refresh_from_db()
    return job
