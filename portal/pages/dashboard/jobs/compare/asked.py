"""The requests of jobs, by label: fields, code, environment, template and inputs."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import TYPE_CHECKING, Any

from django.db.models import Count

from portal.pages.dashboard.jobs.facts import decoded_bytes, facts_asked
from portal.pages.dashboard.parts.formatting import size
from portal.pages.dashboard.parts.neighbours import part_words
from portal.work.jobs.fields.code import code_words
from portal.work.jobs.fields.keeping import job_inputs
from portal.work.jobs.software import software_words
from portal.work.uploads.models import UploadFile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from portal.work.jobs.models import Job, JobPayload

FILES_MOST = 40


def payload_of(job: Job) -> JobPayload:
    """Return the job's program; an array's tasks have their parent's."""
    return (job.array if job.array_id else job).payload


def asked_of(jobs: Sequence[Job]) -> list[dict[str, str]]:
    """Return label -> text of each job, with two queries."""
    found = [_asked(job) for job in jobs]
    files = _files([payload_of(job) for job in jobs])
    return [{**rows, **own} for rows, own in zip(found, files, strict=True)]


def _asked(job: Job) -> dict[str, str]:
    payload = payload_of(job)
    secrets = payload.description.get("secrets") or {}
    rows = {"Command": payload.command}
    if payload.template:
        rows["Template"] = f"{payload.template['name']}, version {payload.template['version']}"
        rows |= {f"Value {name}": _text(value) for name, value in payload.template.get("values", {}).items()}
    if payload.code:
        rows["Code"] = code_words(payload.code)
    if commit := payload.code.get("commit"):
        rows["Commit"] = commit
    rows |= dict(facts_asked(job))
    rows |= {"Array task": str(job.array_index)} if job.array_id else {}
    rows |= {"Part of a GPU": part_words(job.gpu_compute, job.gpu_memory_mib)} if job.gpu_compute else {}
    rows["Software"] = software_words(payload.software)
    if "requirements" in payload.software:
        rows["Requirements"] = payload.software["requirements"]
    rows |= {"Working directory": payload.working_directory} if payload.working_directory else {}
    rows |= {f"Variable {name}": _text(value) for name, value in sorted(payload.environment.items())}
    rows |= {f"Variable {name}": f"the secret {secret}" for name, secret in sorted(secrets.items())}
    return rows | _describe(payload.description)


def _describe(description: Mapping[str, Any]) -> dict[str, str]:
    """Return the rows that only the description has."""
    rows = {}
    if inputs := description.get("inputs"):
        rows["Begins with"] = "\n".join(f"{each.path} of #{each.job} as {each.target}" for each in job_inputs(inputs))
    if patterns := description.get("artefacts"):
        rows["Files kept"] = "\n".join(patterns)
    if texts := description.get("log_matches"):
        rows["Lines told of"] = ", ".join(f'"{each}"' for each in texts)
    if waits := description.get("depends_on"):
        rows["Waits for"] = _text(waits)
    return rows


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)


# ---- files -----------------------------------------------------------------------------------------------------------


def _files(payloads: Sequence[JobPayload]) -> list[dict[str, str]]:
    """Return each job's files, without those that are the same in all jobs, by path."""
    rows = [
        {
            **{
                name: _file_words(decoded_bytes(data), hashlib.sha256(base64.b64decode(data)).hexdigest())
                for name, data in payload.files.items()
            },
            **sent,
        }
        for payload, sent in zip(payloads, _sent(payloads), strict=True)
    ]
    paths = sorted({path for own in rows for path in own})
    apart = [path for path in paths if len({own.get(path) for own in rows}) > 1]
    found = [{f"File {path}": own[path] for path in apart[:FILES_MOST] if path in own} for own in rows]
    if len(apart) > FILES_MOST:
        found[0]["More files"] = "differ, and are not named here"
    return found


def _file_words(size_bytes: int, sha256: str) -> str:
    return f"{size(size_bytes)}, {sha256[:12]}"


def _sent(payloads: Sequence[JobPayload]) -> list[dict[str, str]]:
    """Return the files of their uploads, without those that are the same in all, by path."""
    ids = {payload.upload_id for payload in payloads}
    found: dict[int | None, dict[str, str]] = {each: {} for each in ids}
    if len(ids) > 1:
        files = UploadFile.objects.filter(upload__in=ids - {None})
        alike = {"n": len(ids), "contents": 1}  # one that has no upload makes all of the others' differ
        paths = files.order_by("path").values("path").annotate(n=Count("pk"), contents=Count("blob", distinct=True))
        apart = paths.exclude(**alike).values_list("path", flat=True)[: FILES_MOST + 1]
        told = files.filter(path__in=list(apart)).values_list("upload", "path", "blob__size_bytes", "blob__sha256")
        for upload, path, size_bytes, sha256 in told:
            found[upload][path] = _file_words(size_bytes, sha256)
    return [found[payload.upload_id] for payload in payloads]
