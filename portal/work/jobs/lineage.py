"""Origins of a job, and the jobs that began from it: all are of one tenant, so each reader of one sees the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from portal.work.jobs.models import Job, JobInput
from portal.work.jobs.services.asked.bringing import kept_of

if TYPE_CHECKING:
    from django.db.models import QuerySet

MOST_TOLD = 20


@dataclass(frozen=True)
class Began:
    """An artefact that a job began from, a folder with a / at its end. `job` None: that job is gone."""

    job: Job | None
    path: str
    target: str
    is_kept: bool


def began_from(job: Job) -> list[Began]:
    """Return the inputs of a job, or of the array of a task. Three queries, and one for each folder among them."""
    rows = list(JobInput.objects.filter(job=job.array_id or job.pk).select_related("source"))
    own = {each.source_id: each.source for each in rows if each.source and each.source.tenant_id == job.tenant_id}
    kept = kept_of({(each.source_id, each.path) for each in rows if each.source_id in own})
    return [
        Began(own.get(each.source_id), each.path, each.target, (each.source_id, each.path) in kept) for each in rows
    ]


def continued_by(job: Job) -> QuerySet[Job]:
    """Return the jobs that began from an artefact of this one, the newest first."""
    inputs = JobInput.objects.filter(source=job).values("job")
    return Job.objects.filter(pk__in=inputs, tenant=job.tenant_id).order_by("-pk")


def description_again(job: Job, artefact: str = "") -> dict[str, Any]:
    """Return the description to submit a job again; `artefact`: its input then, under the path that it had.

    One that continues a task of an array is a job of its own, and waits for nothing.
    """
    description = dict((job.array.payload if job.array_id else job.payload).description)
    if not artefact:
        return description
    target = artefact.rstrip("/")
    own = {"job": job.number, "path": artefact} | ({"as": target} if "/" in target else {})
    others = [each for each in description.pop("inputs", None) or () if (each.get("as") or each["path"]) != target]
    kept = {name: value for name, value in description.items() if name not in {"array", "depends_on"}}
    return {**kept, "inputs": [*others, own]}
