"""Offers on the page of a running job: more time, and to keep it although nobody uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.shortcuts import redirect

from portal.foundation.errors import BerthError
from portal.pages.dashboard.parts.formatting import duration
from portal.people.tenants.rights import WORK, may
from portal.work.jobs.idle.using import ends_s, job_keep, span
from portal.work.jobs.listing import job_find
from portal.work.jobs.models import IdleWatch
from portal.work.jobs.services.asked.editing import job_edit, time_limit_most
from portal.work.jobs.states import LIVE, JobState

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from portal.people.tenants.models import User
    from portal.work.jobs.models import Job

STEPS_S = (900, 1800, 3600, 2 * 3600, 4 * 3600, 8 * 3600, 24 * 3600, 72 * 3600)
MOST_S = 10 * 365 * 86400


def extensions(job: Job) -> list[tuple[int, str]]:
    """Return by how much its page offers to make a running job's time limit longer, [] where it cannot be. One query."""
    if job.state not in LIVE or job.array_size or not job.time_limit_s:
        return []
    room = (time_limit_most(job) or 0) - job.time_limit_s
    fitting = [step for step in STEPS_S if step <= room][-4:]
    return [(step, duration(step)) for step in fitting or ([room] if room >= 60 else [])]


def job_extend(request: HttpRequest, number: str) -> HttpResponse:
    job = job_find(user=request.user, number=number)
    by = request.POST.get("by", "")
    by_s = int(by) if by.isascii() and by.isdigit() and len(by) < 10 else 0
    if not 0 < by_s < MOST_S or not job.time_limit_s:
        messages.error(request, "`by` must be seconds, and the job must have a time limit.")
        return redirect("job-detail", number=job.number)
    try:
        job_edit(job=job, actor=request.user, changes={"time_limit_s": job.time_limit_s + by_s})
    except BerthError as error:
        if error.status in {403, 404}:
            raise
        messages.error(request, error.detail)
    else:
        messages.success(request, f"Job {job.number} may run {duration(by_s)} longer.")
    return redirect("job-detail", number=job.number)


def idle_make(job: Job, user: User | None) -> dict[str, Any] | None:
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
