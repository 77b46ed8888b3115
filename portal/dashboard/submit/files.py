"""Files on the submit form: chosen or dropped ones come as an upload; those that the page keeps come back in a hidden field.

The page's script reads what is chosen into the hidden field, so that an error elsewhere on the form loses nothing; without
it the upload itself is read here. The limits are those of REST.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, TypeAlias

from portal.dashboard.jobs.files import file_rows
from portal.errors import BerthError
from portal.jobs.description_parts import MAX_FILES, MAX_FILES_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django.core.files.uploadedfile import UploadedFile
    from django.http import QueryDict
    from django.utils.datastructures import MultiValueDict

    from portal.dashboard.submit.context import FilesContext

    Uploads: TypeAlias = MultiValueDict[str, UploadedFile]

KEPT = "files_kept"
KIB = 1024


def files_of(post: QueryDict, uploads: Uploads | None) -> dict[str, Any]:
    """Return `{"files": {name: {"base64": ...}}}`, or {} without any. Nothing is read of an upload that is too large."""
    found = kept_files(post.get(KEPT, ""))
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
    return {"files": {name: {"base64": data} for name, data in found.items()}} if found else {}


def kept_files(text: str) -> dict[str, str]:
    """Return {name: base64} of the hidden field. Raises BerthError when its content is not what the page writes."""
    if not text.strip():
        return {}
    try:
        kept = json.loads(text)
    except (ValueError, RecursionError):
        kept = None
    if not isinstance(kept, dict) or not all(isinstance(data, str) for data in kept.values()):
        raise BerthError("invalid", "The kept files cannot be read; choose them again.", field="files")
    return kept


def files_context(values: Mapping[str, Any], error: str | None) -> FilesContext:
    """Fill the form's field from `values["files"]`, {name: base64}."""
    files = values.get("files") or {}
    return {
        "kept": json.dumps(files, ensure_ascii=False) if files else "",
        "files": file_rows(files),
        "error": error,
        "max_files": MAX_FILES,
        "max_bytes": MAX_FILES_BYTES,
    }
