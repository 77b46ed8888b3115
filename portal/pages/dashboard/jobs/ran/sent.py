"""One of the files that came with a job, to be read in place, as it was sent.

Its bytes are a tenant's: the previews' own process looks into them, as it does into results.
"""

from __future__ import annotations

import base64
import hashlib
import os
from typing import TYPE_CHECKING

from django.shortcuts import render

from portal.foundation.errors import NotFound
from portal.work.jobs.listing import job_find
from portal.work.previews.asking import Busy, Given, TooCostly, asked
from portal.work.previews.shown import Nothing, shown_of
from portal.work.uploads.selectors import upload_file
from portal.work.uploads.store import blob_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.http import HttpRequest, HttpResponse

    from portal.work.jobs.models import Job
    from portal.work.previews.shown import Preview

GONE = "It is removed: files that a job brought are kept for a while after its end."


def job_sent(request: HttpRequest, number: str) -> HttpResponse:
    """Show one file of those that came with the job: its first lines."""
    job = job_find(user=request.user, number=number)
    name = request.GET.get("path", "")
    return render(request, "jobs/ran/_file.html", {"name": name, "preview": _preview(job, name)})


def _preview(job: Job, name: str) -> Preview:
    """Return its first lines, or the reason why it is not shown. Raises NotFound."""
    payload = job.brought
    data = payload.files.get(name)
    if data is not None:
        content = base64.b64decode(data)
        return _looked(hashlib.sha256(content).hexdigest(), name, lambda: Given(name, len(content), _memory(content)))
    file = upload_file(payload.upload_id, name) if payload.upload_id else None
    if file is None:
        raise NotFound("file")
    sha256, size_bytes = file
    return _looked(sha256, name, lambda: Given(name, size_bytes, os.open(blob_path(sha256), os.O_RDONLY)))


def _looked(sha256: str, name: str, given: Callable[[], Given]) -> Preview:
    try:
        return shown_of(asked(f"sent:{sha256}:{name}", "preview", lambda: [given()]))
    except FileNotFoundError:
        return Nothing(GONE)
    except (Busy, TooCostly) as error:
        return Nothing(str(error))


def _memory(content: bytes) -> int:
    file = os.memfd_create("sent")
    os.write(file, content)
    return file
