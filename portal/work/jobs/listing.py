"""Read jobs, for lists and for the page of one job. Each list costs a constant number of queries."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from django.db import connection
from django.db.models import CharField, Prefetch, TextField, Value
from django.db.models.functions import Cast, StrIndex

from portal.foundation.errors import NotFound
from portal.work.jobs.models import Allocation, Attempt, GpuAllocation, Job, Slowing

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from portal.people.tenants.models import Tenant, User

SLOWINGS = 20
"""The most slowdowns of an attempt that are shown, the last ones: a job of weeks may have been slowed each other minute."""
_NUMBER = re.compile(r"[1-9][0-9]{0,17}\Z", re.ASCII)
_TASK = re.compile(r"([1-9][0-9]{0,17})_(0|[1-9][0-9]{0,8})\Z", re.ASCII)


def jobs_for(*, user: User, tenant: Tenant | None = None) -> QuerySet[Job]:
    """Return the jobs a user sees; `tenant` narrows them to the one that a token is restricted to."""
    jobs = Job.objects.visible_to(user).select_related("tenant", "owner")
    return jobs.filter(tenant=tenant) if tenant else jobs


def jobs_with_nodes(jobs: QuerySet[Job]) -> QuerySet[Job]:
    """Fetch where each job runs together with the jobs: `live_attempts`, a list with at most one."""
    allocations = Allocation.objects.select_related("node").order_by("rank")
    live = Attempt.objects.runs().live().prefetch_related(Prefetch("allocations", allocations))
    return jobs.prefetch_related(Prefetch("attempts", live, to_attr="live_attempts"))


def job_find(*, user: User, number: str, tenant: Tenant | None = None) -> Job:
    """Return the job with this number (1044, or 1044_6 for a task). A missing, foreign or malformed one: NotFound."""
    jobs = jobs_for(user=user, tenant=tenant)
    if task := _TASK.match(number):
        jobs = jobs.filter(array_id=int(task[1]), array_index=int(task[2]))
    elif _NUMBER.match(number):
        jobs = jobs.filter(pk=int(number))
    else:
        raise NotFound("job")
    job = jobs.select_related("payload", "array__payload").first()
    if job is None:
        raise NotFound("job")
    return job


def attempts_of(job: Job) -> QuerySet[Attempt]:
    """Return a job's runs, the last one first, with nodes, cores and GPUs; and `slowings_told`, the last of each."""
    told = Slowing.objects.select_related("node", "attempt__job", "helped__job")
    return _with_parts(
        job.attempts.runs().order_by("-epoch").select_related("speed", "stop_for", "core_search")
    ).prefetch_related(
        "core_search__steps",
        Prefetch("slowings", told[:SLOWINGS], to_attr="slowings_told"),
    )


def attempts_measured(job: Job) -> QuerySet[Attempt]:
    """Return a job's runs that began, the last one first, with nodes and GPUs and no more: its figures read these."""
    return _with_parts(job.attempts.runs().filter(started_at__isnull=False).order_by("-epoch"))


def profiles_of(job: Job) -> QuerySet[Attempt]:
    """Return a job's profiles, the last one first, as `attempts_of` does its runs, and with their GPU type."""
    return _with_parts(job.attempts.profiles().order_by("-epoch").select_related("speed", "profile_type"))


def _with_parts(attempts: QuerySet[Attempt]) -> QuerySet[Attempt]:
    gpus = GpuAllocation.objects.select_related("gpu").order_by("gpu__index")
    allocations = Allocation.objects.select_related("node__gpu_type").prefetch_related(
        Prefetch("gpu_allocations", gpus)
    )
    return attempts.prefetch_related(Prefetch("allocations", allocations.order_by("rank")))


def jobs_labelled(jobs: QuerySet[Job], *, label: str) -> QuerySet[Job]:
    """Keep the jobs with a label: `name` with any value, `name=value` with that one."""
    name, equals, value = label.partition("=")
    if not equals:
        return jobs.filter(labels__has_key=name)
    if connection.features.supports_json_field_contains:
        return jobs.filter(labels__contains={name: value})
    # SQLite: the pair as it stands in the stored text. A quote inside a string is escaped there, so no value fakes it.
    pair = json.dumps({name: value})[1:-1]
    place = StrIndex(Cast("labels", TextField()), Value(pair, output_field=CharField()))
    return jobs.alias(label_at=place).filter(label_at__gt=0)
