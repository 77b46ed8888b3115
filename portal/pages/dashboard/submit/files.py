"""Files on the submit form: chosen or dropped ones come as an upload; those that the page keeps come back in a hidden field.

The page's script reads what is chosen into the hidden field, so that an error elsewhere on the form loses nothing; without
it the upload itself is read here. The limits are those of REST.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, TypeAlias

from portal.foundation.environment import env
from portal.foundation.errors import BerthError, NotFound
from portal.pages.dashboard.jobs.facts import file_rows
from portal.work.jobs.description_parts import MAX_FILES, MAX_FILES_BYTES
from portal.work.uploads.selectors import upload_files, upload_get

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django.core.files.uploadedfile import UploadedFile
    from django.http import QueryDict
    from django.utils.datastructures import MultiValueDict

    from portal.people.tenants.models import User

    Uploads: TypeAlias = MultiValueDict[str, UploadedFile]

KEPT = "files_kept"
KIB = 1024


def files_of(post: QueryDict, uploads: Uploads | None) -> dict[str, Any]:
    """Return `files`, {name: {"base64": ...}}, and `upload`, a digest, where the form has them. A too large file is not read."""
    found = kept_files(post.get(KEPT, ""))
    upload = {"upload": digest} if (digest := post.get("upload", "").strip()) else {}
    chosen = uploads.getlist("files") if uploads else []
    if sum(each.size or 0 for each in chosen) > MAX_FILES_BYTES:
        total = sum(each.size or 0 for each in chosen)
        detail = (
            f"The chosen files are {total / KIB / KIB:.1f} MiB; a job's files may be 1 MiB in all. None was taken: "
            "put larger input on storage that the nodes can read, and choose the others again."
        )
        raise BerthError("too_large", detail, field="files")
    for each in chosen:
        found[str(each.name)] = base64.b64encode(each.read()).decode()
    return upload | ({"files": {name: {"base64": data} for name, data in found.items()}} if found else {})


def kept_files(text: str) -> dict[str, str]:
    """Return {name: base64} of the hidden field. Raises BerthError when its content is not what the page writes."""
    if not text.strip():
        return {}
    try:
        kept = json.loads(text)
        json.dumps(kept, ensure_ascii=False).encode()  # half of a surrogate pair could not stand on the page again
    except (ValueError, RecursionError):
        kept = None
    if not isinstance(kept, dict) or not all(isinstance(data, str) for data in kept.values()):
        raise BerthError("invalid", "The kept files cannot be read; choose them again.", field="files")
    return kept


def text_of(chosen: UploadedFile | None, most: int, refusal: BerthError) -> str:
    """Return the text of a chosen file, "" for none. Raises `refusal` above `most` bytes, BerthError where it is no UTF-8."""
    if chosen is None:
        return ""
    if (chosen.size or 0) > most:
        raise refusal
    try:
        return bytes(chosen.read()).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BerthError("invalid_unicode", "The file is not UTF-8 text.", field="text") from None


def upload_shown(user: User, digest: object) -> list[dict[str, Any]]:
    """Return the files of an upload that the user sees; [] of any other, or of none."""
    if not isinstance(digest, str) or not digest:
        return []
    try:
        return upload_files(upload_get(user=user, digest=digest).pk)
    except NotFound:
        return []


def files_context(values: Mapping[str, Any], error: str | None, *, user: User) -> dict[str, Any]:
    """Fill the form's field from `values["files"]`, {name: base64}, and `values["upload"]`, a digest."""
    files, sent = values.get("files") or {}, upload_shown(user, values.get("upload"))
    return {
        "kept": json.dumps(files, ensure_ascii=False) if files else "",  # for the hidden field
        "files": file_rows(files),
        "error": error,
        "max_files": MAX_FILES,
        "max_bytes": MAX_FILES_BYTES,
        "max_uploaded": env("BERTH_UPLOAD_MIB") * KIB * KIB,
        "upload": str(values["upload"]) if sent else "",
        "sent": json.dumps(sent, ensure_ascii=False) if sent else "[]",
    }
