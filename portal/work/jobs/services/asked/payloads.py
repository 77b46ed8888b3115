"""Keep the bulky part of a job: its command, its files, and where it came from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from portal.work.jobs.models import Attempt, JobPayload
from portal.work.uploads.services import upload_claim

if TYPE_CHECKING:
    from collections.abc import Mapping

    from portal.work.jobs.description import JobDescription
    from portal.work.jobs.models import Job


def commit_note(*, attempt: Attempt, commit: str) -> bool:
    """Keep the commit that a node found: with the attempt, and the first one with the job, whose later attempts run it too.

    False: another part of the attempt has found another one.
    """
    if attempt.commit:
        return attempt.commit == commit
    Attempt.objects.filter(pk=attempt.pk).update(commit=commit)
    payload = (
        JobPayload.objects.select_for_update(no_key=True).only("code").get(pk=attempt.job.array_id or attempt.job_id)
    )
    if "git" in payload.code and "commit" not in payload.code:
        payload.code = {**payload.code, "commit": commit}
        payload.save(update_fields=["code"])
    return True


def payload_create(
    job: Job, parsed: JobDescription, description: Mapping[str, Any], template: Mapping[str, Any]
) -> None:
    """Keep it; an upload that it brings is kept from now on too. Raises BerthError for an upload that is gone."""
    upload = upload_claim(tenant=job.tenant, digest=parsed.upload) if parsed.upload else None
    JobPayload.objects.create(
        job=job,
        command=parsed.command,
        files=parsed.files,
        upload=upload,
        working_directory=parsed.working_directory,
        environment=parsed.environment,
        software=parsed.software,
        code=parsed.code,
        description=dict(description),
        template=dict(template),
    )
