"""Opens kept files for a look by the previews' process."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from portal.foundation.errors import NotFound
from portal.work.artefacts.selectors import artefact_bytes, artefact_file
from portal.work.previews.asking import Given

if TYPE_CHECKING:
    from portal.work.artefacts.models import Artefact
    from portal.work.jobs.models import Job


def given_of(job: Job, row: Artefact, name: str = "") -> Given:
    """Open a kept file, under its path or another name. A file that is gone reads as empty; reading raises StoreAway."""

    def fetch(start: int, length: int) -> bytes:
        try:
            return artefact_bytes(job, row, start=start, most=length)
        except (NotFound, OSError):
            return b""

    file = artefact_file(job, row)
    if file is not None:
        return Given(name or row.path, row.size or 0, file)
    return Given(name or row.path, row.size or 0, os.memfd_create("artefact"), fetch)
