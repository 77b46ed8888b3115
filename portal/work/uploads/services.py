"""Takes in contents and uploads, and removes what no job needs any more.

A tenant's row is locked while its contents change, and a content's row while its file is made or removed: so a file is there
exactly as long as its row.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from django.db import transaction
from django.db.models import Exists, OuterRef
from django.utils import timezone

from portal.foundation.bulk import among
from portal.foundation.environment import env
from portal.foundation.errors import BerthError, Conflict
from portal.people.tenants.models import Tenant
from portal.people.tenants.services import audit_record
from portal.work.uploads import store
from portal.work.uploads.manifest import MIB, digest_of, too_large
from portal.work.uploads.models import Blob, Holding, Upload, UploadFile
from portal.work.uploads.selectors import contents_known, held_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from django.db.models import Q, QuerySet

    from portal.people.tenants.models import User
    from portal.work.uploads.manifest import Entry

GIB = 2**30
UNNAMED_KEPT = timedelta(days=1)
"""The time for which a content is kept that no upload names: its upload is still to come."""


@dataclass(frozen=True)
class Declared:
    """The outcome of a list of files: the hashes of the contents that are still to be sent, and the upload once none are."""

    digest: str
    missing: list[str]
    upload: Upload | None


@transaction.atomic
def upload_declare(*, user: User, tenant: Tenant, entries: Sequence[Entry]) -> Declared:
    """Make the upload where the tenant has sent all contents; else say which are missing. Raises BerthError."""
    _lock(tenant)
    now = timezone.now()
    sizes = {entry.sha256: entry.size_bytes for entry in entries}
    known = {sha256: row for sha256, row in contents_known(tenant, list(sizes)).items() if store.is_there(sha256)}
    for entry in entries:
        if entry.sha256 in known and known[entry.sha256][1] != entry.size_bytes:
            detail = f"The content with the hash of {entry.path[:60]!r} has another size; list the files again."
            raise BerthError("size_mismatch", detail, field="files")
    missing = [sha256 for sha256 in sizes if sha256 not in known]
    quota_check(tenant, sum(sizes[sha256] for sha256 in missing))
    Holding.objects.filter(tenant=tenant, blob_id__in=among(row for row, _ in known.values())).update(at=now)
    digest = digest_of(entries)
    if missing:
        return Declared(digest, missing, None)
    upload, is_new = Upload.objects.update_or_create(
        tenant=tenant,
        digest=digest,
        defaults={"used_at": now},
        create_defaults={
            "used_at": now,
            "count": len(entries),
            "size_bytes": sum(entry.size_bytes for entry in entries),
        },
    )
    if is_new:
        UploadFile.objects.bulk_create(
            (
                UploadFile(upload=upload, blob_id=known[e.sha256][0], path=e.path, executable=e.executable)
                for e in entries
            ),
            batch_size=500,
        )
        audit_record(actor=user, action="upload.create", target=f"upload:{digest[:12]}", tenant=tenant)
    return Declared(digest, [], upload)


def content_check(tenant: Tenant, size_bytes: int) -> None:
    """Refuse a content before its bytes come: too large, over the quota, or no room. Raises BerthError."""
    limit_mib = env("BERTH_UPLOAD_MIB")
    if size_bytes > limit_mib * MIB:
        raise too_large(size_bytes, limit_mib)
    quota_check(tenant, size_bytes)
    store.room_require(size_bytes)


@transaction.atomic
def content_take(*, tenant: Tenant, sha256: str, size_bytes: int, incoming: Path) -> None:
    """Keep a content that has come in whole, for this tenant. Raises BerthError where the quota has no room."""
    _lock(tenant)
    if sha256 not in contents_known(tenant, [sha256]):
        quota_check(tenant, size_bytes)
    Blob.objects.get_or_create(sha256=sha256, defaults={"size_bytes": size_bytes})
    blob = Blob.objects.select_for_update().get(sha256=sha256)
    store.place(incoming, sha256)
    Holding.objects.update_or_create(tenant=tenant, blob=blob, defaults={"at": timezone.now()})


def quota_check(tenant: Tenant, more_bytes: int) -> None:
    """Raise Conflict where a tenant's contents would have more than the operator lets a tenant have."""
    limit_gib = env("BERTH_UPLOADS_GIB")
    held = held_bytes(tenant) if more_bytes else 0
    if more_bytes and held + more_bytes > limit_gib * GIB:
        raise Conflict(
            "quota_exceeded",
            f"{tenant.name} has {held / GIB:.2f} GiB of uploads, these files need {more_bytes / GIB:.2f} GiB more, and a tenant "
            f"may have {limit_gib} GiB. Remove uploads that no job needs, or ask an operator.",
            field="files",
        )


@transaction.atomic
def upload_claim(*, tenant: Tenant, digest: str) -> Upload:
    """Return the tenant's upload for a job that is submitted in this transaction: it is kept from now on. Raises BerthError."""
    found = Upload.objects.select_for_update().filter(tenant=tenant, digest=digest).first()
    if found is None:
        raise unknown_upload(tenant)
    Upload.objects.filter(pk=found.pk).update(used_at=timezone.now())
    return found


def upload_check(*, tenant: Tenant, digest: str) -> None:
    """Raise BerthError where the tenant has no such upload."""
    if not Upload.objects.filter(tenant=tenant, digest=digest).exists():
        raise unknown_upload(tenant)


def unknown_upload(tenant: Tenant) -> BerthError:
    detail = f"{tenant.name} has no such upload, or it was removed because no job used it; send the files again."
    return BerthError("unknown_upload", detail, field="upload")


@transaction.atomic
def upload_delete(*, user: User, upload: Upload, in_use: Q) -> None:
    """Remove an upload, and the contents that no other names. Raises Conflict while a job needs it."""
    _lock(upload.tenant)
    row = Upload.objects.select_for_update().filter(pk=upload.pk).first()
    if row is None:
        return
    if Upload.objects.filter(in_use, pk=row.pk).exists():
        raise Conflict("in_use", "A job that has not ended needs this upload; cancel it first, or wait for its end.")
    blobs = set(UploadFile.objects.filter(upload=row).values_list("blob_id", flat=True))
    row.delete()
    _unnamed(upload.tenant).filter(blob_id__in=among(blobs)).delete()
    audit_record(actor=user, action="upload.delete", target=f"upload:{row.digest[:12]}", tenant=upload.tenant)
    transaction.on_commit(lambda: blobs_remove(blobs))


def uploads_expire(*, in_use: Q) -> int:
    """Remove uploads that no job used for long, contents that no upload names, and remains of broken uploads; return how many."""
    now = timezone.now()
    before = now - timedelta(days=env("BERTH_UPLOADS_KEEP_DAYS"))
    count = 0
    for pk in list(Upload.objects.filter(used_at__lt=before).values_list("pk", flat=True)):
        with transaction.atomic():
            row = Upload.objects.select_for_update().filter(pk=pk, used_at__lt=before).first()
            if row is not None and not Upload.objects.filter(in_use, pk=pk).exists():
                row.delete()
                count += 1
    for tenant in Tenant.objects.all():
        with transaction.atomic():
            _lock(tenant)
            _unnamed(tenant).filter(at__lt=now - UNNAMED_KEPT).delete()
    blobs_remove(set(Blob.objects.filter(holdings=None).values_list("pk", flat=True)))
    for path in store.leftovers():
        path.unlink(missing_ok=True)
    _nameless_remove()
    return count


def blobs_remove(ids: set[int]) -> None:
    """Remove those of these contents that no tenant has any more, row and file."""
    for pk in ids:
        with transaction.atomic():
            blob = Blob.objects.select_for_update().filter(pk=pk, holdings=None).first()
            if blob is not None and not Holding.objects.filter(blob=blob).exists():
                store.remove(blob.sha256)
                blob.delete()


def _nameless_remove() -> None:
    """Remove files without a row: a process died between the one and the other, or a backup was restored."""
    for number in range(256):
        names = store.names_of(f"{number:02x}")
        for first in range(0, len(names), 500):
            some = names[first : first + 500]
            known = set(Blob.objects.filter(sha256__in=some).values_list("sha256", flat=True))
            for name in some:
                if name not in known:
                    store.remove(name)


def _unnamed(tenant: Tenant) -> QuerySet[Holding]:
    """Return the tenant's contents that none of its uploads names."""
    named = UploadFile.objects.filter(upload__tenant=OuterRef("tenant"), blob=OuterRef("blob"))
    return Holding.objects.filter(~Exists(named), tenant=tenant)


def _lock(tenant: Tenant) -> None:
    Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
