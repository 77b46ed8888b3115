"""Artefacts of earlier jobs that a later one begins with: they travel to its nodes as its uploaded files do, by their hash."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from django.db.models import Q

from portal.work.artefacts import store
from portal.work.artefacts.models import Artefact
from portal.work.artefacts.selectors import below
from portal.work.jobs.models import Allocation, Job, JobInput

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from django.db.models import QuerySet

    from portal.cluster.models import Node

ABSENT = "0" * 64
"""The hash of an input that is no longer kept: no node gets it, and the part ends as `start_failed`."""
MOST_FILES = 10_000
"""The most files that a job may begin with; with more in its folders it begins with none of them, as where none is kept."""


def kept_among(named: Collection[tuple[int, str]]) -> set[tuple[int, str]]:
    """Return those that are kept of (job's id, path); of a folder, which has a / at its end, where any file in it is."""
    rows = Artefact.objects.filter(size__isnull=False)
    files = {each for each in named if not each[1].endswith("/")}
    found = set()
    if files:
        wanted = reduce(or_, (Q(job=job, path=path) for job, path in files))
        found = set(rows.filter(wanted).values_list("job_id", "path"))
    return found | {(job, path) for job, path in set(named) - files if below(rows.filter(job=job), path).exists()}


def _wanted(job_id: int) -> Iterator[tuple[JobInput, QuerySet[Artefact]]]:
    """Yield each input of a job, an array's task included, with its kept files."""
    job = Job.objects.only("array_id", "tenant_id").get(pk=job_id)
    for each in JobInput.objects.filter(job=job.array_id or job.pk):
        kept = Artefact.objects.filter(job=each.source_id, job__tenant=job.tenant_id, size__isnull=False)
        rows = below(kept, each.path) if each.path.endswith("/") else kept.filter(path=each.path)
        yield each, rows.select_related("job")


def _inputs(job_id: int) -> dict[str, Artefact | None]:
    """Return the artefact for each path in the job's directory; None: nothing is kept, or too much."""
    found: dict[str, Artefact | None] = {}
    for each, rows in _wanted(job_id):
        skip = len(each.path.rstrip("/"))
        laid = {each.target + row.path[skip:]: row for row in rows[: MOST_FILES + 1]}
        found |= laid if laid and len(found) + len(laid) <= MOST_FILES else {each.target: None}
    return found


def with_inputs(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a part's specification with its inputs among its files; a file of the upload of the same path gives way."""
    files = {each["path"]: each for each in spec["upload"]}
    for target, row in _inputs(spec["job"]).items():
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
    for _, rows in _wanted(job_id) if job_id is not None else ():
        if (row := rows.filter(sha256=sha256).first()) is not None:
            return store.pieces(row.job.key, row.blob, start=0, stop=row.size or 0), row.size or 0
    return None
