"""A job that ends when nobody uses it: the warning on its page, and *Keep it running*."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from django.contrib import messages
from django.shortcuts import redirect

from portal.foundation.errors import BerthError
from portal.people.tenants.rights import WORK, may
from portal.work.jobs.idle.using import ends_s, job_keep, span
from portal.work.jobs.listing import job_find
from portal.work.jobs.models import IdleWatch
from portal.work.jobs.states import JobState

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from portal.people.tenants.models import User
    from portal.work.jobs.models import Job


class IdleContext(TypedDict):
    """`idle` and `left`: for how long nobody has used it, and until it ends; both as words."""

    idle: str
    left: str
    may_keep: bool


def idle_make(job: Job, user: User | None) -> IdleContext | None:
    """Return the warning; None where there is none to give. One query, of a running job with an idle time-out."""
    if job.state != JobState.RUNNING or job.idle_timeout_s is None:
        return None
    watch = IdleWatch.objects.filter(
        attempt__job=job, attempt__ended_at=None, attempt__stop_reason="", warned_idle_s__isnull=False
    ).first()
    if watch is None or watch.warned_idle_s is None:
        return None
    return {
        "idle": span(watch.idle_s),
        "left": span(max(0.0, ends_s(job.idle_timeout_s, watch.warned_idle_s) - watch.idle_s)),
        "may_keep": user is not None and may(user, job.tenant, WORK),
    }


def job_keep_running(request: HttpRequest, number: str) -> HttpResponse:
    job = job_find(user=request.user, number=number)
    try:
        job_keep(job=job, actor=request.user)
    except BerthError as error:
        if error.status in {403, 404}:
            raise
        messages.error(request, error.detail)
    else:
        messages.success(request, f"Job {job.number} is kept running: its idle time begins anew.")
    return redirect("job-detail", number=job.number)
