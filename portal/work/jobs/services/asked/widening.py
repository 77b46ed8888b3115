"""Let a waiting job ask for less, or accept more kinds of GPUs, as its tenant chose among the planner's offers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import transaction

from portal.foundation.errors import BerthError, Conflict
from portal.foundation.events.services import page_event, plan_nudge
from portal.people.tenants.selectors import work_check
from portal.people.tenants.services import audit_record
from portal.work.jobs.models import Job
from portal.work.jobs.services.events import event_record
from portal.work.jobs.services.locks import road_lock
from portal.work.jobs.states import JobState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from portal.people.tenants.models import User

ASKED = ("gpus", "gpu_types", "cores_per_gpu", "cores", "memory_mib")
"""The kinds of wishes of which one may be changed while the job waits."""


def asked_of(job: Job) -> dict[str, Any]:
    """Return the job's present wish, so that a change is refused where somebody else changed it first."""
    return {name: getattr(job, name) for name in ASKED}


FIELDS: Mapping[str, Callable[[Job, Any], dict[str, Any]]] = {
    "size": lambda job, size: {"gpus": sorted({size, *job.gpus})},
    "gpu-type": lambda job, types: {"gpu_types": sorted({*job.gpu_types, *types})},
    "cores-per-gpu": lambda _, cores: {"cores_per_gpu": cores},
    "cores": lambda _, cores: {"cores": cores},
    "memory": lambda _, memory_mib: {"memory_mib": memory_mib},
}
"""A kind of change -> the fields that it sets."""


def widening_refused(job: Job, change: str, *, r_num: int) -> str | None:
    """Say why the job cannot be changed so while it waits; None: it can."""
    if job.array_id or job.array_size:
        return "The tasks of an array ask for what their array asks for: submit it anew to change that."
    if job.shareable:
        return "A job for a part of a GPU asks for one GPU: submit it anew to change that."
    if change == "cores-per-gpu" and job.cores_exactly:
        return "The job says that it needs exactly so many cores a GPU (cores_exactly)."
    if change == "size" and len(job.gpus) >= r_num:
        return f"A job accepts at most {r_num} sizes, and this one has so many."
    if change == "size" and job.learning_rate and "value" not in job.learning_rate:
        return "Its learning rates are given size by size, and there is none for this size."
    return None


@transaction.atomic
def job_widen(
    *, job: Job, actor: User, change: str, value: Any, seen: Mapping[str, Any], r_num: int, words: str
) -> Job:
    """Set one change's field; `seen`: its value when the change was worked out.

    Raises Conflict where it no longer waits or asks for something else by now. Nothing is changed then.
    """
    work_check(actor, job.tenant)
    road_lock(jobs=lambda: [job.pk])
    job = Job.objects.select_related("tenant").get(pk=job.pk)
    if job.state != JobState.PENDING or job.cancel_requested_at:
        raise Conflict("not_waiting", f"Job {job.number} no longer waits; nothing was changed.")
    if asked_of(job) != dict(seen):
        raise Conflict("changed", f"Somebody changed what job {job.number} asks for meanwhile; nothing was changed.")
    if refused := widening_refused(job, change, r_num=r_num):
        raise BerthError("not_changeable", refused, field="change", status=409)
    fields = FIELDS[change](job, value)
    before = {name: getattr(job, name) for name in fields}
    Job.objects.filter(pk=job.pk).update(**fields)
    text = f"{words} by {actor.username}, as the planner offered."
    event_record(job_id=job.pk, kind="offer-accepted", text=text, actor=actor)
    audit_record(
        actor=actor,
        action="job.offer",
        target=f"job:{job.pk}",
        tenant=job.tenant,
        detail={name: [before[name], fields[name]] for name in fields},
    )
    page_event(stream="cluster", topic="job")
    page_event(stream=f"job:{job.pk}", topic="job", id=job.pk)
    plan_nudge()
    job.refresh_from_db()
    return job
