"""Find a job's uploads and secrets when it is submitted; an upload is kept while the job may still run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db.models import Q

from portal.foundation.errors import Conflict
from portal.work.jobs.models import JobPayload
from portal.work.jobs.services.asked.keeping import inputs_resolved
from portal.work.jobs.software import MAX_REQUIREMENTS_BYTES, file_missing, file_requirements
from portal.work.secrets.services import secrets_open
from portal.work.uploads.selectors import file_text
from portal.work.uploads.services import upload_check

if TYPE_CHECKING:
    from portal.people.tenants.models import Tenant
    from portal.work.jobs.description import JobDescription
    from portal.work.jobs.models import Job

IN_USE = Q(payloads__job__ended_at=None, payloads__isnull=False)
"""Uploads that a job needs which has not ended."""


def files_resolved(*, tenant: Tenant, parsed: JobDescription) -> JobDescription:
    """Return the description with its inputs' jobs, and the requirements that its upload's file holds.

    Raises BerthError: no such input, upload, file or secret.
    """
    parsed = inputs_resolved(tenant=tenant, parsed=parsed)
    secrets_open(tenant=tenant, names=set(parsed.secrets.values()))
    if secret := parsed.code.get("secret"):
        secrets_open(tenant=tenant, names=[secret], field="code.secret")
    if not parsed.upload:
        return parsed
    upload_check(tenant=tenant, digest=parsed.upload)
    name = parsed.software.get("requirements_file")
    if name is None:
        return parsed
    text = file_text(tenant=tenant, digest=parsed.upload, path=name, most_bytes=MAX_REQUIREMENTS_BYTES)
    if text is None:
        raise file_missing(name)
    return parsed.but(software=file_requirements(text))


def files_require(job: Job) -> None:
    """Raise Conflict where the upload of a job that is to run again was removed meanwhile."""
    payload = JobPayload.objects.only("upload", "description").get(pk=job.pk)
    if payload.upload_id is None and payload.description.get("upload"):
        raise Conflict(
            "files_gone", "The job's uploaded files were removed long after its end; submit it anew with them."
        )
