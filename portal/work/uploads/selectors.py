"""Uploads and contents of a tenant."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from django.db.models import Case, Sum, Value, When

from portal.foundation.errors import BerthError, NotFound
from portal.work.uploads import store
from portal.work.uploads.models import Holding, Upload, UploadFile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from portal.people.tenants.models import Tenant, User

_DIGEST = re.compile("[0-9a-f]{64}")


def upload_get(*, user: User, digest: str, tenant: Tenant | None = None) -> Upload:
    """Return an upload of the user's tenants; `tenant`: of a restricted token. Raises NotFound."""
    rows = Upload.objects.visible_to(user).select_related("tenant").filter(digest=digest)
    if tenant is not None:
        rows = rows.filter(tenant=tenant)
    found = rows.order_by("-used_at").first() if _DIGEST.fullmatch(digest) else None
    if found is None:
        raise NotFound("upload")
    return found


def upload_files(upload_id: int) -> list[dict[str, Any]]:
    """Return an upload's files by path: {path, sha256, size_bytes, executable}. One query."""
    rows = UploadFile.objects.filter(upload_id=upload_id).order_by("path")
    return [
        {"path": path, "sha256": sha256, "size_bytes": size_bytes, "executable": executable}
        for path, sha256, size_bytes, executable in rows.values_list(
            "path", "blob__sha256", "blob__size_bytes", "executable"
        )
    ]


def upload_file(upload_id: int, path: str) -> tuple[str, int] | None:
    """Return hash and size of one file of an upload; None where it has none of this path."""
    rows = UploadFile.objects.filter(upload_id=upload_id, path=path)
    return rows.values_list("blob__sha256", "blob__size_bytes").first()


def upload_begin(upload_id: int, *, first: Sequence[str], most: int) -> tuple[list[tuple[str, int]], int]:
    """Return path and size of at most `most` files of an upload, by path, those named `first` before all, and their number."""
    rows = UploadFile.objects.filter(upload_id=upload_id)
    ahead = Case(When(path__in=first, then=Value(0)), default=Value(1))
    return list(rows.order_by(ahead, "path").values_list("path", "blob__size_bytes")[:most]), rows.count()


def upload_holds(upload_id: int, sha256: str) -> bool:
    return UploadFile.objects.filter(upload_id=upload_id, blob__sha256=sha256).exists()


def held_bytes(tenant: Tenant) -> int:
    """Return how much a tenant's contents have, each counted once."""
    return Holding.objects.filter(tenant=tenant).aggregate(sum=Sum("blob__size_bytes"))["sum"] or 0


def file_text(*, tenant: Tenant, digest: str, path: str, most_bytes: int) -> str | None:
    """Return a file of an upload as text; None where there is none of this path. Raises BerthError for one that is no text."""
    rows = UploadFile.objects.filter(upload__tenant=tenant, upload__digest=digest, path=path)
    found = rows.values_list("blob__sha256", "blob__size_bytes").first()
    if found is None:
        return None
    sha256, size_bytes = found
    if size_bytes > most_bytes:
        detail = f"The file has {size_bytes} bytes, and requirements at most {most_bytes}."
        raise BerthError("too_long", detail, field="software.requirements_file")
    try:
        return b"".join(store.pieces(sha256)).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BerthError(
            "not_text", "The file is not UTF-8 text; save it as that.", field="software.requirements_file"
        ) from None


def contents_known(tenant: Tenant, hashes: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Return {hash: (blob's id, size)} of those contents that the tenant has sent itself."""
    found: dict[str, tuple[int, int]] = {}
    for first in range(0, len(hashes), 500):
        rows = Holding.objects.filter(tenant=tenant, blob__sha256__in=hashes[first : first + 500])
        for sha256, blob_id, size_bytes in rows.values_list("blob__sha256", "blob_id", "blob__size_bytes"):
            found[sha256] = (blob_id, size_bytes)
    return found
