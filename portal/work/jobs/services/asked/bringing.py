"""Things that a job brings: its command, uploads, secrets, and artefacts of earlier jobs. An upload is kept while a job may run.

A higher room, `artefacts`, knows which artefacts are kept, and registers how to ask.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from django.db.models import Q

from portal.foundation import checks
from portal.foundation.errors import BerthError, Conflict
from portal.work.jobs.models import Attempt, Job, JobInput, JobPayload
from portal.work.jobs.software import MAX_REQUIREMENTS_BYTES, file_missing, file_requirements
from portal.work.jobs.states import FINAL
from portal.work.secrets.services import secrets_open
from portal.work.uploads.selectors import file_text
from portal.work.uploads.services import upload_check, upload_claim

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from portal.people.tenants.models import Tenant
    from portal.work.jobs.description import JobDescription
    from portal.work.jobs.fields.keeping import Input


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


Named = tuple[int, str]
"""A job's id and the path of an artefact of it, or of a folder with a / at its end."""
_askers: list[Callable[[Collection[Named]], set[Named]]] = []


def kept_asked_by(asker: Callable[[Collection[Named]], set[Named]]) -> None:
    """Register what says which of some artefacts are kept; called once, in `apps.ready()`."""
    _askers[:] = [asker]


def kept_of(named: Collection[Named]) -> set[Named]:
    """Return those that are kept: files that are, and folders with such a file."""
    return _askers[0](named) if _askers and named else set()


def inputs_resolved(*, tenant: Tenant, parsed: JobDescription) -> JobDescription:
    """Return the description with the ids of its inputs' jobs. A foreign and a missing job get the same answer.

    Codes: unknown_input, input_missing (409: the job could not begin with it).
    """
    if not parsed.inputs:
        return parsed
    jobs = _jobs(tenant, {each.job for each in parsed.inputs})
    for each in parsed.inputs:
        if each.job not in jobs:
            raise BerthError("unknown_input", f"There is no job {each.job} of {tenant.name}.", field="inputs")
    kept = kept_of({(jobs[each.job].pk, each.path) for each in parsed.inputs})
    awaited = {job_id for job_id, _ in parsed.depends_on}
    for each in parsed.inputs:
        if (jobs[each.job].pk, each.path) not in kept:
            _missing(each, jobs[each.job], awaited)
    return parsed.but(inputs=tuple(replace(each, job=str(jobs[each.job].pk)) for each in parsed.inputs))


def _jobs(tenant: Tenant, numbers: Iterable[str]) -> dict[str, Job]:
    wanted = Q()
    for number in numbers:
        array, is_task, index = number.partition("_")
        wanted |= Q(array_id=int(array), array_index=int(index)) if is_task else Q(pk=int(array))
    rows = Job.objects.filter(wanted, tenant=tenant).only("pk", "state", "array_id", "array_index")
    return {key: job for job in rows for key in (job.number, str(job.pk))}


def _missing(wanted: Input, job: Job, awaited: Collection[int]) -> None:
    """Raise Conflict where this artefact cannot come any more, or nobody waits for it."""
    if job.state in FINAL:
        detail = f"Job {wanted.job} has ended and kept no {checks.quoted(wanted.path)}; name one of its artefacts."
    elif job.pk in awaited:
        return
    else:
        detail = f"Job {wanted.job} has not kept {checks.quoted(wanted.path)} yet; wait for it with `depends_on`."
    raise Conflict("input_missing", detail, field="inputs")


def inputs_create(job: Job, parsed: JobDescription) -> None:
    """Store a job's inputs; `parsed` as `inputs_resolved` returned it."""
    JobInput.objects.bulk_create(
        JobInput(job=job, source_id=int(each.job), path=each.path, target=each.target) for each in parsed.inputs
    )


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
