"""A job's files by name and size, as its page and the submit form show them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from portal.dashboard.jobs.context import JobFile


def file_rows(files: Mapping[str, str]) -> list[JobFile]:
    """Return the names with their sizes, by name."""
    return [{"name": name, "size_bytes": decoded_bytes(data)} for name, data in sorted(files.items())]


def decoded_bytes(data: str) -> int:
    """Return how many bytes a base64 text stands for."""
    return len(data) * 3 // 4 - data[-2:].count("=")
