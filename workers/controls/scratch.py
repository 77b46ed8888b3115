"""Copies a tenant's own directory for a profile to work in, by the rights of the job's account."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

SCRATCH_BYTES, SCRATCH_ENTRIES = 64 * 1024 * 1024, 10_000
"""The most that is copied, because the GPU idles meanwhile."""


class TooLargeError(Exception):
    """It is too large to be copied; the text says the remedy."""


def scratch_copy(source: Path, copy: Path) -> None:
    """Copy `source` into the empty directory `copy`. Raises TooLargeError or OSError."""
    left_bytes, left_entries = SCRATCH_BYTES, SCRATCH_ENTRIES
    for folder, _, names in os.walk(source, onerror=_raise):
        left_entries -= len(names) + 1
        left_bytes -= sum((Path(folder) / name).lstat().st_size for name in names)
        if min(left_bytes, left_entries) < 0:
            raise TooLargeError(
                f"it holds more than {SCRATCH_BYTES >> 20} MiB or {SCRATCH_ENTRIES} entries, too much to copy for a "
                "profile; send the job's program as files, or keep its data in another directory"
            )
    shutil.copytree(source, copy, symlinks=True, dirs_exist_ok=True)


def _raise(error: OSError) -> None:
    raise error
