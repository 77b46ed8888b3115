"""Take a job: everything is checked, then the job, its payload and its nudge are one transaction (invariant 3)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from portal.cluster.selectors import capacity_check, gpu_memory_check, software_offered
from portal.foundation.disk import disk_require
from portal.foundation.errors import BerthError, Conflict
from portal.foundation.events.services import page_event, plan_nudge
from portal.people.tenants.models import Tenant, User
from portal.people.tenants.selectors import ceiling_check, tenant_resolve
from portal.people.tenants.services import audit_record
from portal.work.jobs.description import R_NUM, SHORT_NAMES, JobDescription, description_examine, description_parse
from portal.work.jobs.models import IdempotencyKey, Job, JobDependency
from portal.work.jobs.searching import job_text_add
from portal.work.jobs.services.asked.bringing import files_resolved, inputs_create, payload_create
from portal.work.jobs.services.asked.dependencies import dependencies_of
from portal.work.jobs.services.changes import array_refresh
from portal.work.jobs.services.events import event_record
from portal.work.jobs.services.locks import tenants_lock
from portal.work.jobs.sizes import grace_most_s
from portal.work.jobs.software import image_check, need_check, software_need
from portal.work.jobs.use import queued_jobs

KEY_KEPT = timedelta(days=7)
"""How long an Idempotency-Key answers with its job; a client that retries for longer than that submits anew."""


def idempotency_keys_expire() -> int:
    return IdempotencyKey.objects.filter(created_at__lt=timezone.now() - KEY_KEPT).delete()[0]


def job_submit(
    *,
    user: User,
    tenant: Tenant | None = None,
    description: Mapping[str, Any],
    idempotency_key: str | None = None,
    r_num: int = R_NUM,
    template: Mapping[str, Any] | None = None,
) -> Job:
    """Accept a job and return it once it is committed. `template`: its origin, kept beside its description.

    Raises BerthError (400 what is wrong with the description, 403 priority, 409 quota or a reused key, 507 no room).
    """
    parsed = description_parse(description, r_num=r_num)
    digest = hashlib.sha256(json.dumps(description, sort_keys=True, default=str).encode()).hexdigest()
    if idempotency_key and (known := _known(user=user, key=idempotency_key, digest=digest)):
        return known
    tenant = tenant_resolve(user=user, tenant=tenant, name=parsed.tenant)
    parsed = files_resolved(tenant=tenant, parsed=parsed)
    _capacity_check(parsed)
    _grace_check(parsed)
    disk_require()
    try:
        with transaction.atomic():
            job = _create(user=user, tenant=tenant, parsed=parsed, description=description, template=template or {})
            if idempotency_key:
                IdempotencyKey.objects.create(user=user, key=idempotency_key, body_digest=digest, job=job)
    except IntegrityError:
        # Two requests with one key at once: the first to commit made the job, the second answers with it.
        if idempotency_key and (known := _known(user=user, key=idempotency_key, digest=digest)):
            return known
        raise
    return job


def submission_check(
    *, user: User, tenant: Tenant | None = None, description: Mapping[str, Any], r_num: int = R_NUM
) -> tuple[Tenant, JobDescription]:
    """Check a description as `job_submit` would, with the same errors, and change nothing. Takes no lock."""
    parsed = description_parse(description, r_num=r_num)
    tenant = tenant_resolve(user=user, tenant=tenant, name=parsed.tenant)
    parsed = files_resolved(tenant=tenant, parsed=parsed)
    _capacity_check(parsed)
    _grace_check(parsed)
    _allowed_check(user=user, tenant=tenant, parsed=parsed)
    _quota_check(tenant=tenant, parsed=parsed)
    dependencies_of(user=user, tenant=tenant, parsed=parsed, locked=False)
    return tenant, parsed


def submission_problems(*, user: User, description: Mapping[str, Any], r_num: int = R_NUM) -> list[BerthError]:
    """Return every reason to refuse a submission, at most one error for each field; [] when it would be accepted.

    Checks that read other rows leave out the fields that are wrong by themselves. Changes nothing.
    """
    parsed, problems = description_examine(description, r_num=r_num)
    if parsed is None:
        parsed = _right_fields(description, problems, r_num=r_num)
    if parsed is None:
        return problems
    tenant: Tenant | None = None
    try:
        tenant = tenant_resolve(user=user, tenant=None, name=parsed.tenant)
        parsed = files_resolved(tenant=tenant, parsed=parsed)
    except BerthError as error:
        problems.append(error)
    for check in _checks(user=user, tenant=tenant, parsed=parsed):
        try:
            check()
        except BerthError as error:
            if error.field is None or error.field not in {problem.field for problem in problems}:
                problems.append(error)
    return problems


def _right_fields(
    description: Mapping[str, Any], problems: Sequence[BerthError], *, r_num: int
) -> JobDescription | None:
    """Return the description without the fields that `problems` name; None when that is still wrong."""
    wrong = {(problem.field or "").split(".")[0] for problem in problems}
    right = {name: value for name, value in description.items() if SHORT_NAMES.get(name, name) not in wrong}
    if "gpus" in wrong:
        right["gpus"] = 1
    return description_examine({"command": ":", **right}, r_num=r_num)[0]


def _checks(*, user: User, tenant: Tenant | None, parsed: JobDescription) -> list[Callable[[], object]]:
    """Return the checks that read other rows, each of which raises BerthError; those of the tenant if it is known."""
    found: list[Callable[[], object]] = [partial(_capacity_check, parsed), partial(_grace_check, parsed)]
    if tenant is not None:
        found.append(partial(_allowed_check, user=user, tenant=tenant, parsed=parsed))
        found.append(partial(_quota_check, tenant=tenant, parsed=parsed))
    return [*found, partial(dependencies_of, user=user, tenant=tenant, parsed=parsed, locked=False)]


def _grace_check(parsed: JobDescription) -> None:
    """Raise BerthError when it asks for more grace than the operator allows."""
    if parsed.grace_s is not None and parsed.grace_s > (most_s := grace_most_s()):
        raise BerthError("invalid", f"`grace_s` is at most {most_s} here; the operator sets it.", field="grace_s")


def _capacity_check(parsed: JobDescription) -> None:
    capacity_check(gpus=parsed.gpus, gpu_types=parsed.gpu_types, cores=parsed.cores, memory_mib=parsed.memory_mib)
    gpu_memory_check(gpu_types=parsed.gpu_types, memory_mib=parsed.gpu_memory_mib)
    need_check(_need(parsed), software_offered)


def _need(parsed: JobDescription) -> str:
    return software_need(parsed.software, git="git" in parsed.code)


def _known(*, user: User, key: str, digest: str) -> Job | None:
    row = IdempotencyKey.objects.filter(user=user, key=key).select_related("job").first()
    if row is None:
        return None
    if row.body_digest != digest:
        raise Conflict(
            "idempotency_conflict",
            "This Idempotency-Key was used with another body; use a new key for a new job.",
            field="Idempotency-Key",
        )
    return row.job


def _create(
    *,
    user: User,
    tenant: Tenant,
    parsed: JobDescription,
    description: Mapping[str, Any],
    template: Mapping[str, Any],
) -> Job:
    _allowed_check(user=user, tenant=tenant, parsed=parsed)
    tenant = tenants_lock([tenant.pk])[tenant.pk]
    _quota_check(tenant=tenant, parsed=parsed)
    dependencies = dependencies_of(user=user, tenant=tenant, parsed=parsed)
    now = timezone.now()
    job = Job.objects.create(
        tenant=tenant,
        owner=user,
        software_need=_need(parsed),
        submitted_at=now,
        waiting_since=None if dependencies or parsed.array_size else now,
        reason="" if parsed.array_size else "dependency" if dependencies else "not-planned-yet",
        **parsed.job_fields(),
    )
    payload_create(job, parsed, description, template)
    inputs_create(job, parsed)
    job_text_add(job)
    JobDependency.objects.bulk_create(JobDependency(job=job, on_id=on, kind=kind) for on, kind in dependencies)
    event_record(job_id=job.pk, kind="submitted", text=f"Submitted for {tenant.name}.", actor=user, at=now)
    audit_record(actor=user, action="job.submit", target=f"job:{job.pk}", tenant=tenant)
    if job.array_size:
        array_refresh(array_id=job.pk)
        job.refresh_from_db()
    page_event(stream="cluster", topic="job")
    plan_nudge()
    return job


def _allowed_check(*, user: User, tenant: Tenant, parsed: JobDescription) -> None:
    ceiling_check(user=user, tenant=tenant, priority=parsed.priority)
    image_check(parsed.software, tenant=tenant.name, allowed=tenant.images)


def _quota_check(*, tenant: Tenant, parsed: JobDescription) -> None:
    """Refuse what the tenant's quotas do not allow. The tenant's row is locked, so two at once cannot both slip in."""
    need = parsed.gpus[0]
    if tenant.gpu_quota is not None and need > tenant.gpu_quota:
        raise Conflict(
            "quota_exceeded",
            f"The job needs at least {need} GPU{'s' if need != 1 else ''}, but {tenant.name} has a quota of {tenant.gpu_quota}; "
            "accept fewer, or ask an operator.",
            field="gpus",
        )
    cores = parsed.cores if need == 0 else need
    if tenant.core_quota is not None and (cores or 1) > tenant.core_quota:
        raise Conflict(
            "quota_exceeded",
            f"The job needs at least {cores} cores, but {tenant.name} has a quota of {tenant.core_quota}; "
            "ask for fewer, or ask an operator.",
            field="cores",
        )
    queue_quota_check(tenant=tenant, asked=parsed.array_size or 1)


def queue_quota_check(*, tenant: Tenant, asked: int, already: int = 0) -> None:
    """Refuse `asked` more waiting jobs than the tenant may have; `already` of them are in the database as waiting."""
    if tenant.queued_jobs_quota is None:
        return
    waiting = queued_jobs(Tenant.objects.filter(pk=tenant.pk))[tenant.pk] - already
    if waiting + asked > tenant.queued_jobs_quota:
        raise Conflict(
            "quota_exceeded",
            f"{tenant.name} has {waiting} jobs waiting and may have {tenant.queued_jobs_quota}; "
            f"wait, cancel some, or ask an operator.",
        )
