"""Let jobs that failed wait again when a person asks for it. There is no other way out of an end.

A task's turn comes when its array has room for it, as for tasks that are made: until then it is marked (`retry_asked_at`)
and its array says how many are (`array_retries`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from portal.foundation.errors import Conflict
from portal.foundation.events.services import jobs_tell, page_event, plan_nudge
from portal.people.tenants.selectors import work_check
from portal.people.tenants.services import audit_record
from portal.work.jobs.models import Job, JobDependency
from portal.work.jobs.services.arrays import jobs_reopen
from portal.work.jobs.services.asked.bringing import files_require
from portal.work.jobs.services.changes import array_refresh, never_completed
from portal.work.jobs.services.events import event_record
from portal.work.jobs.services.locks import jobs_lock, tenants_lock
from portal.work.jobs.services.submission import queue_quota_check
from portal.work.jobs.states import FINAL, RETRIED, JobState

if TYPE_CHECKING:
    from collections.abc import Collection

    from portal.people.tenants.models import User

NAMED = 5
"""Cancelled jobs that a retry's event names."""


@transaction.atomic
def job_retry(*, job: Job, actor: User, states: Collection[str] = RETRIED) -> Job:
    """Let a job that failed wait again as its next attempt; of an array, its failed tasks in `states`.

    Raises Conflict: not_failed, nothing_failed, retry_asked, quota_exceeded.
    """
    work_check(actor, job.tenant)
    tenant = tenants_lock([job.tenant_id])[job.tenant_id]
    rows = jobs_lock([job.pk, job.array_id] if job.array_id else [job.pk])
    job, parent = rows[job.pk], rows[job.array_id or job.pk]
    _refuse(job, parent)
    files_require(parent)
    if job.array_size or job.array_id:
        chosen = Job.objects.filter(array=parent) if job.array_size else Job.objects.filter(pk=job.pk)
        count = _mark(chosen.filter(state__in=RETRIED & set(states), retry_asked_at=None), parent)
    else:
        count = 1
        jobs_reopen([job.pk])
    queue_quota_check(tenant=tenant, asked=count, already=count)
    what = f"{count} failed task{'s' if count != 1 else ''} retried" if job.array_size else "Retried"
    text = f"{what} by {actor.username}.{_left_cancelled(parent)}"
    event_record(job_id=job.pk, kind="retried", text=text, actor=actor)
    audit_record(actor=actor, action="job.retry", target=f"job:{job.pk}", tenant=tenant, detail={"jobs": count})
    if job.array_size or job.array_id:
        array_refresh(array_id=parent.pk)
    page_event(stream="cluster", topic="job")
    jobs_tell(job_ids={job.pk, parent.pk})
    plan_nudge()
    return Job.objects.select_related("tenant", "owner").get(pk=job.pk)


def _left_cancelled(parent: Job) -> str:
    """Say which jobs were cancelled because this one did not complete: a retry does not bring them back."""
    stuck = JobDependency.objects.filter(
        on=parent, job__state=JobState.CANCELLED, job__end_detail=never_completed(parent.pk)
    )
    ids = list(stuck.order_by("job_id").values_list("job_id", flat=True)[: NAMED + 1])
    if not ids:
        return ""
    shown = [*(f"#{number}" for number in ids[:NAMED]), *(["others"] if len(ids) > NAMED else [])]
    return f" Jobs that were cancelled because it failed stay cancelled: {', '.join(shown)}. Relaunch them to let them run."


def _refuse(job: Job, parent: Job) -> None:
    if parent.array_size and parent.cancel_requested_at:
        detail = f"Array {parent.number} was cancelled; submit it again."
        raise Conflict("not_failed", detail)
    if job.array_size is None and job.state not in RETRIED:
        detail = f"Job {job.number} is {job.state}; only a job that failed can be retried. Edit and relaunch it."
        raise Conflict("not_failed", detail)
    if job.retry_asked_at:
        raise Conflict("retry_asked", f"Job {job.number} is to be retried already, when its array has room.")


def _mark(chosen: Any, parent: Job) -> int:
    """Mark failed tasks and wake their array; return how many. Conditional, so that two at once mark each once."""
    count = chosen.update(retry_asked_at=timezone.now())
    if not count:
        raise Conflict("nothing_failed", f"No task of array {parent.number} failed; there is nothing to retry.")
    Job.objects.filter(pk=parent.pk).update(array_retries=F("array_retries") + count)
    Job.objects.filter(pk=parent.pk, state__in=FINAL).update(state=JobState.RUNNING, ended_at=None)
    return count
