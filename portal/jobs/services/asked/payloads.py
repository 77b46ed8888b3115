"""Keep the bulky part of a job: what it runs, its files, and where it came from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from portal.jobs.models import JobPayload

if TYPE_CHECKING:
    from collections.abc import Mapping

    from portal.jobs.description import JobDescription
    from portal.jobs.models import Job


def payload_create(
    job: Job, parsed: JobDescription, description: Mapping[str, Any], template: Mapping[str, Any]
) -> None:
    JobPayload.objects.create(
        job=job,
        command=parsed.command,
        files=dict(parsed.files or {}),
        working_directory=parsed.working_directory or "",
        environment=dict(parsed.environment or {}),
        software=dict(parsed.software or {}),
        description=dict(description),
        template=dict(template),
    )
