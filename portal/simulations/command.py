"""What the commands have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.core.management.base import CommandError

if TYPE_CHECKING:
    from pathlib import Path


def file_write(path: Path, text: str) -> None:
    """CommandError when it cannot be written."""
    try:
        path.write_text(text)
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}.") from error
