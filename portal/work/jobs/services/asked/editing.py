"""Change a stored job: its description while it waits, its name and labels, a running one's time limit; take an offer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import transaction

from portal.foundation.errors import BerthError, Conflict
from portal.foundation.events.services import page_event, plan_nudge
from portal.people.tenants.selectors import work_check
from portal.people.tenants.services import audit_record
from portal.work.jobs.declaration.table import FIELDS
from portal.work.jobs.description import READ_ONLY, field_read
from portal.work.jobs.description_parts import requirement_set
from portal.work.jobs.models import Attempt, Job, JobPayload, JobText
from portal.work.jobs.searching import text_of
from portal.work.jobs.services.control import job_priority_set, nodes_wake
from portal.work.jobs.services.events import event_record
from portal.work.jobs.services.locks import road_lock
from portal.work.jobs.sizes import extend_most
from portal.work.jobs.states import FINAL, LIVE, QUEUED, JobState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from portal.people.tenants.models import User


CHANGEABLE = ("priority", "name", "labels", "time_limit_s", "gpus")
WAITING_ONLY = ("gpus", "priority")


def changes_parse(body: Mapping[str, Any], *, r_num: int) -> dict[str, Any]:
    """Return the changes of a request, in normal form. `time_limit_s` null: none. Raises BerthError naming the field."""
    known = ", ".join(f"`{name}`" for name in CHANGEABLE)
    found: dict[str, Any] = {}
    for name, value in body.items():
        if name not in CHANGEABLE:
            code = "read_only" if name in READ_ONLY else "not_changeable" if name in FIELDS else "unknown_field"
            raise BerthError(code, f"`{name[:60]}` cannot be changed; {known} can, of a waiting job.", field=name[:60])
        if name == "gpus":
            found[name] = list(requirement_set(value, r_num=r_num))
        elif name == "time_limit_s" and value is None:
            found[name] = None
        else:
            parsed = field_read(value, name)
            found[name] = dict(parsed) if name == "labels" else parsed
    if not found:
        raise BerthError("required", f"Say what to change: {known}.", field="priority")
    return found


@transaction.atomic
def job_edit(*, job: Job, actor: User, changes: Mapping[str, Any]) -> Job:
    """Set what `changes_parse` returned; all of it or nothing. Of an array: of it and its waiting tasks.

    A running job's time limit can be made longer, by members up to the operator's knob `time_limit_extend`.
    """
    work_check(actor, job.tenant)
    road_lock(jobs=lambda: [job.pk, *job.tasks.exclude(state__in=FINAL).values_list("pk", flat=True)])
    job = Job.objects.select_related("tenant").get(pk=job.pk)
    _check(job, changes, actor=actor)
    values = {name: value for name, value in changes.items() if name != "priority" and getattr(job, name) != value}
    if "priority" in changes and changes["priority"] != job.priority:
        job_priority_set(job=job, actor=actor, priority=changes["priority"])
    if values:
        _set(job, values, actor=actor)
    job.refresh_from_db()
    return job


def _check(job: Job, changes: Mapping[str, Any], *, actor: User) -> None:
    if job.state in FINAL or job.cancel_requested_at:
        raise Conflict("terminal_state", f"Job {job.number} has ended or is being stopped; there is nothing to change.")
    running = job.state not in QUEUED and not job.array_size
    for name in WAITING_ONLY:
        if running and name in changes:
            detail = f"Job {job.number} runs; `{name}` can be changed only while a job waits."
            raise Conflict("not_waiting", detail, field=name)
    if "gpus" in changes:
        _sizes_check(job, changes["gpus"])
    if running and "time_limit_s" in changes:
        _extension_check(job, changes["time_limit_s"], actor=actor)


def _sizes_check(job: Job, gpus: list[int]) -> None:
    if (gpus == [0]) != (job.gpus == [0]):
        detail = "A job with GPUs cannot become a CPU job, and a CPU job gets no GPUs. Submit it again instead."
        raise BerthError("not_changeable", detail, field="gpus", status=409)
    refused = None
    if job.array_id or job.array_size:
        refused = "The tasks of an array ask for what their array asks for: submit it anew to change that."
    elif job.shareable:
        refused = "A job for a part of a GPU asks for one GPU: submit it anew to change that."
    elif job.learning_rate and "value" not in job.learning_rate and set(gpus) - {int(key) for key in job.learning_rate}:
        refused = "Its learning rates are given size by size, and there is none for a new size: submit it anew."
    if gpus != job.gpus and refused:
        raise BerthError("not_changeable", refused, field="gpus", status=409)


def time_limit_most(job: Job) -> int | None:
    """Return the longest time limit that a member may give the running job; None: it has no limit to be made longer."""
    if job.time_limit_s is None:
        return None
    described = JobPayload.objects.values_list("description", flat=True).get(pk=job.array_id or job.pk)
    asked = described.get("time_limit_s") or job.time_limit_s
    return max(job.time_limit_s, int(float(asked) * (1 + extend_most())))


def _extension_check(job: Job, limit_s: int | None, *, actor: User) -> None:
    most = time_limit_most(job)
    if most is None or job.time_limit_s is None or limit_s is None or limit_s < job.time_limit_s:
        detail = f"Job {job.number} runs; its time limit can only be made longer."
        raise Conflict("not_waiting", detail, field="time_limit_s")
    if limit_s > most and not actor.is_operator:
        detail = f"`time_limit_s` can be at most {most} while job {job.number} runs; an operator may give it more."
        raise BerthError("out_of_range", detail, field="time_limit_s")


def _set(job: Job, values: dict[str, Any], *, actor: User) -> None:
    before = {name: getattr(job, name) for name in values}
    waiting = job.tasks.filter(state__in=QUEUED).values_list("pk", flat=True) if job.array_size else []
    Job.objects.filter(pk__in=[job.pk, *waiting]).update(**values)
    if "name" in values or "labels" in values:
        text = text_of(name=values.get("name", job.name), labels=values.get("labels", job.labels))
        JobText.objects.filter(job=job.pk).update(text=text)
    if job.state in LIVE and not job.array_size:
        attempt = Attempt.objects.runs().live().filter(job=job).first()
        if attempt is not None:
            nodes_wake(attempt=attempt)  # the nodes read the new limit
    elif not job.array_id:
        _description_set(job, values)
    words = ", ".join(f"{name} {_shown(before[name])} -> {_shown(values[name])}" for name in values)
    event_record(job_id=job.pk, kind="edited", text=f"Changed by {actor.username}: {words}.", actor=actor)
    detail = {name: [before[name], values[name]] for name in values}
    audit_record(actor=actor, action="job.edit", target=f"job:{job.pk}", tenant=job.tenant, detail=detail)
    page_event(stream="cluster", topic="job")
    page_event(stream=f"job:{job.pk}", topic="job", id=job.pk)
    plan_nudge()


def _shown(value: Any) -> str:
    return "none" if value is None else str(value)[:60]


def _description_set(job: Job, values: Mapping[str, Any]) -> None:
    """Let *Edit and relaunch* begin with the job's present description."""
    payload = JobPayload.objects.only("description").get(pk=job.pk)
    for name, value in values.items():
        payload.description.pop(name, None)
        if value is not None:
            payload.description[name] = value
    payload.save(update_fields=["description"])


ASKED = ("gpus", "gpu_types", "cores", "memory_mib")
"""The kinds of wishes of which one may be changed while the job waits."""


def asked_of(job: Job) -> dict[str, Any]:
    """Return the job's present wish, so that a change is refused where somebody else changed it first."""
    return {name: getattr(job, name) for name in ASKED}


WIDENED: Mapping[str, Callable[[Job, Any], dict[str, Any]]] = {
    "size": lambda job, size: {"gpus": sorted({size, *job.gpus})},
    "gpu-type": lambda job, types: {"gpu_types": sorted({*job.gpu_types, *types})},
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
    fields = WIDENED[change](job, value)
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
