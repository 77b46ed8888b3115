"""A job's files by name and size, as its page and the submit form show them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from portal.work.uploads.selectors import upload_files

if TYPE_CHECKING:
    from collections.abc import Mapping

    from portal.pages.dashboard.jobs.context import JobFile
    from portal.work.jobs.models import JobPayload


def file_rows(files: Mapping[str, str]) -> list[JobFile]:
    """Return the names with their sizes, by name."""
    return [{"name": name, "size_bytes": decoded_bytes(data)} for name, data in sorted(files.items())]


def decoded_bytes(data: str) -> int:
    """Return how many bytes a base64 text stands for."""
    return len(data) * 3 // 4 - data[-2:].count("=")


def payload_rows(payload: JobPayload) -> list[JobFile]:
    """Return the files that came with the job, and those of its upload; one query more where it has one."""
    sent = upload_files(payload.upload_id) if payload.upload_id else []
    rows: list[JobFile] = [{"name": file["path"], "size_bytes": file["size_bytes"]} for file in sent]
    return sorted(file_rows(payload.files) + rows, key=lambda row: row["name"])
