"""The files that a job brings in an upload: found when it is submitted, and kept while it may still run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from django.db.models import Q

from portal.errors import Conflict
from portal.jobs.models import JobPayload
from portal.jobs.services.asked.keeping import inputs_check
from portal.jobs.software import MAX_REQUIREMENTS_BYTES, file_missing, file_requirements
from portal.uploads.selectors import file_text
from portal.uploads.services import upload_check

if TYPE_CHECKING:
    from portal.jobs.description import JobDescription
    from portal.jobs.models import Job
    from portal.tenants.models import Tenant

IN_USE = Q(payloads__job__ended_at=None, payloads__isnull=False)
"""Uploads that a job needs which has not ended."""


def files_resolved(*, tenant: Tenant, parsed: JobDescription) -> JobDescription:
    """Return the description with the requirements that its upload's file holds. Raises BerthError: no such upload or file."""
    inputs_check(tenant=tenant, parsed=parsed)
    if not parsed.upload:
        return parsed
    upload_check(tenant=tenant, digest=parsed.upload)
    name = (parsed.software or {}).get("requirements_file")
    if name is None:
        return parsed
    text = file_text(tenant=tenant, digest=parsed.upload, path=name, most_bytes=MAX_REQUIREMENTS_BYTES)
    if text is None:
        raise file_missing(name)
    return replace(parsed, software=file_requirements(text))


def files_require(job: Job) -> None:
    """Raise Conflict where the upload of a job that is to run again was removed meanwhile."""
    payload = JobPayload.objects.only("upload", "description").get(pk=job.pk)
    if payload.upload_id is None and payload.description.get("upload"):
        raise Conflict(
            "files_gone", "The job's uploaded files were removed long after its end; submit it anew with them."
        )
