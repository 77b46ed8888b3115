"""Read artefacts. Whose they are is the job's affair: find the job by `job_find` first, then ask here.

- `artefacts_of(job)`: the rows by path. A row's `state` is `kept` (its `size, sha256, modified_at` and bytes are there),
  `uploading` (`told_size` bytes are on their way; of a kept row: a newer content), or `not_kept` with a `reason`.
- `artefact_get(job, path)`: one row, or NotFound. `artefact_bytes(row, ...)`: a piece of its content, for a preview.
- `artefacts_summary(job)`: counts, state, how long kept. `tenant_use(tenant)`: bytes, quota and days.

Page event: topic `artefacts` on the stream `job:N` when any of this changes.

Artefacts that a later job begins with travel to its nodes as its uploaded files do, by their hash.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from django.db.models import Q, Value
from django.db.models.functions import Left

from portal.foundation.disk import DiskLow, disk_state
from portal.foundation.environment import env
from portal.foundation.errors import NotFound
from portal.work.artefacts import store
from portal.work.artefacts.models import Artefact, JobArtefacts, TenantArtefacts
from portal.work.jobs.models import Allocation, Job, JobInput
from portal.work.jobs.states import FINAL

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from datetime import datetime

    from django.db.models import QuerySet

    from portal.cluster.models import Node
    from portal.people.tenants.models import Tenant


GIB = 2**30


def quota_gib(tenant: Tenant) -> int:
    return env("BERTH_ARTEFACT_QUOTA_GIB") if tenant.artefact_quota_gib is None else tenant.artefact_quota_gib


def kept_days(tenant: Tenant) -> int | None:
    """Return how many days after a job's end its artefacts are kept; None: until somebody removes them."""
    days = env("BERTH_ARTEFACT_DAYS") if tenant.artefact_days is None else tenant.artefact_days
    return days or None


def room_require() -> None:
    """Raise DiskLow where artefacts would take what jobs, logs and the database need; the files wait on their nodes."""
    disk = disk_state()
    if disk.low or disk.free_mib < env("BERTH_ARTEFACT_DISK_LOW_MIB"):
        raise DiskLow(disk)


@dataclass(frozen=True)
class Summary:
    """A job's artefacts as a whole. `state`: none, watching (the job runs), uploading, complete."""

    state: str
    files: int = 0
    counted: int = 0
    uploading: int = 0
    looked_at: datetime | None = None
    kept_until: datetime | None = None
    notes: tuple[tuple[str, str], ...] = ()
    notes_more: int = 0


@dataclass(frozen=True)
class Use:
    """A tenant's use by artefacts and its limit, in bytes; `days`: how long after a job's end, None: for ever."""

    counted: int
    quota: int
    days: int | None


def artefacts_of(job: Job, *, under: str = "") -> QuerySet[Artefact]:
    """Return a job's artefacts by path; `under`: those below that folder."""
    rows = Artefact.objects.filter(job=job).order_by("path")
    return below(rows, under) if under else rows


def below(rows: QuerySet[Artefact], under: str) -> QuerySet[Artefact]:
    """Keep the artefacts that lie in a folder."""
    head = under.rstrip("/") + "/"
    return rows.alias(head=Left("path", len(head))).filter(head=Value(head))  # LIKE would ignore case on SQLite


def artefact_get(job: Job, path: str) -> Artefact:
    row = Artefact.objects.filter(job=job, path=path).first() if "\0" not in path else None
    if row is None:
        raise NotFound("artefact")
    return row


def artefact_pieces(job: Job, row: Artefact, *, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
    """Yield a kept artefact's bytes from `start` to before `stop`, in pieces of 64 KiB. Raises NotFound."""
    if row.size is None:
        raise NotFound("artefact")
    return store.pieces(job.key, row.blob, start=start, stop=row.size if stop is None else min(stop, row.size))


def artefact_bytes(job: Job, row: Artefact, *, start: int = 0, most: int) -> bytes:
    """Return up to `most` bytes of a kept artefact from `start` on. Raises NotFound."""
    return b"".join(artefact_pieces(job, row, start=start, stop=start + most))


def artefact_file(job: Job, row: Artefact) -> int | None:
    """Return a descriptor of a kept artefact's bytes; None where they are not on the portal's disk."""
    return store.opened(job.key, row.blob)


def artefacts_summary(job: Job) -> Summary:
    row = JobArtefacts.objects.filter(pk=job.pk).first()
    over = job.state in FINAL
    if row is None:
        return Summary("none" if over else "watching")
    uploading = Artefact.objects.filter(job=job).exclude(incoming="").count()
    days = kept_days(job.tenant)
    return Summary(
        state="uploading" if uploading else "complete" if over else "watching",
        files=row.files,
        counted=row.counted,
        uploading=uploading,
        looked_at=row.looked_at,
        kept_until=job.ended_at + timedelta(days=days) if job.ended_at and days else None,
        notes=tuple((path, why) for notes in row.notes.values() for path, why in notes),
        notes_more=sum(len(more) if isinstance(more, list) else more for more in row.left_out.values()),
    )


def tenant_use(tenant: Tenant) -> Use:
    counted = TenantArtefacts.objects.filter(pk=tenant.pk).values_list("counted", flat=True).first() or 0
    return Use(counted, quota_gib(tenant) * GIB, kept_days(tenant))


def largest_of(tenant: Tenant) -> list[JobArtefacts]:
    """Return the jobs whose artefacts take most of a tenant's quota, the largest first."""
    rows = JobArtefacts.objects.filter(tenant=tenant, counted__gt=0).select_related("job")
    return list(rows.order_by("-counted", "-job_id")[:5])


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
