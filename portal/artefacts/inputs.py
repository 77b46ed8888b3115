"""Artefacts of earlier jobs that a later one begins with: they travel to its nodes as its uploaded files do, by their hash."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from portal.artefacts import store
from portal.artefacts.models import Artefact
from portal.jobs.fields.keeping import job_inputs
from portal.jobs.models import Allocation, Job, JobPayload

if TYPE_CHECKING:
    from collections.abc import Iterator

    from portal.cluster.models import Node

ABSENT = "0" * 64
"""The hash of an input that is no longer kept: no node gets it, and the part ends as `start_failed`."""


def is_kept(job_id: int, path: str) -> bool:
    return Artefact.objects.filter(job=job_id, path=path, size__isnull=False).exists()


def _inputs(job_id: int) -> list[tuple[str, Artefact | None]]:
    """Return (path in the job's directory, the artefact of the same tenant or None) of each input."""
    job = Job.objects.only("array_id", "tenant_id").get(pk=job_id)
    given = JobPayload.objects.values_list("description", flat=True).get(pk=job.array_id or job.pk).get("inputs")
    wanted = job_inputs(given) if given else ()
    rows = Artefact.objects.filter(
        job__in={each for each, _, _ in wanted},
        path__in={path for _, path, _ in wanted},
        job__tenant=job.tenant_id,
        size__isnull=False,
    )
    found = {(row.job_id, row.path): row for row in rows.select_related("job")} if wanted else {}
    return [(target, found.get((each, path))) for each, path, target in wanted]


def with_inputs(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a part's specification with its inputs among its files; a file of the upload of the same path gives way."""
    files = {each["path"]: each for each in spec["upload"]}
    for target, row in _inputs(spec["job"]):
        sha256, size = (ABSENT, 0) if row is None else (row.sha256, row.size or 0)
        files[target] = {"path": target, "sha256": sha256, "size_bytes": size, "executable": False}
    return {**spec, "upload": list(files.values())}


def input_content(*, node: Node, key: str, sha256: str) -> tuple[Iterator[bytes], int] | None:
    """Return the content of an input of the attempt that is wanted on this node, and its bytes; None: it has none such."""
    job_id = (
        Allocation.objects.filter(attempt__key=key, node=node, released_at=None)
        .values_list("attempt__job_id", flat=True)
        .first()
    )
    for _, row in _inputs(job_id) if job_id is not None else ():
        if row is not None and row.sha256 == sha256:
            return store.pieces(row.job.key, row.blob, start=0, stop=row.size or 0), row.size or 0
    return None
