"""Previews of kept files: made once for each content, and pictures served so that a browser can do nothing but draw."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from django.http import HttpResponse
from django.urls import reverse

from portal.foundation.api.streams import Streamed
from portal.foundation.errors import BerthError, NotFound
from portal.work.artefacts.looking import given_of
from portal.work.artefacts.remote import StoreAway
from portal.work.artefacts.selectors import artefact_pieces
from portal.work.previews.asking import Busy, OutOfTime, TooCostly, asked
from portal.work.previews.shown import Nothing, Picture, shown_of

if TYPE_CHECKING:
    from django.http import HttpRequest
    from django.http.response import HttpResponseBase

    from portal.work.artefacts.models import Artefact
    from portal.work.jobs.models import Job
    from portal.work.previews.shown import Preview

MOST_KEPT = 16
"""Previews that each process keeps: a content never changes, and many readers may look at it."""
SANDBOX = "default-src 'none'; sandbox"
_kept: OrderedDict[tuple[str, str, str], Preview] = OrderedDict()
_lock = threading.Lock()


def preview_or_why(job: Job, row: Artefact) -> Preview:
    """Return the file's preview, or why there is none at the moment."""
    try:
        return preview_kept(job, row)
    except StoreAway as error:
        return Nothing(error.detail)
    except (Busy, OutOfTime) as error:
        return Nothing(str(error))


def preview_kept(job: Job, row: Artefact) -> Preview:
    """Return the file's preview, made anew only for a content that was not looked at lately.

    Raises StoreAway, Busy, OutOfTime: these pass, so none is kept.
    """
    key = (job.key, row.blob, row.path)
    with _lock:
        if key in _kept:
            _kept.move_to_end(key)
            return _kept[key]
    made = _made(job, row)
    with _lock:
        _kept[key] = made
        while len(_kept) > MOST_KEPT:
            _kept.popitem(last=False)
    return made


def _made(job: Job, row: Artefact) -> Preview:
    """Have the file looked into. Raises StoreAway, Busy, OutOfTime."""
    try:
        return shown_of(asked(f"preview:{job.key}:{row.blob}:{row.path}", "preview", lambda: [given_of(job, row)]))
    except OutOfTime:
        raise
    except TooCostly as error:
        return Nothing(str(error))


def picture_url(job: Job, row: Artefact) -> str:
    """Return the address of a picture's bytes; it changes with the content."""
    told = urlencode({"path": row.path, "of": row.sha256[:12]})
    return f"{reverse('job-artefacts-picture', args=[job.number])}?{told}"


def picture_answer(request: HttpRequest, job: Job, row: Artefact) -> HttpResponseBase:
    """Send a picture as the type that its first bytes show, under a policy that lets it load and run nothing.

    Raises NotFound for any file that is no picture for a page; StoreAway, or BerthError `busy`, where nobody can look now.
    """
    headers = {
        "ETag": f'"{row.sha256}"',
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": SANDBOX,
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "private, max-age=300",
    }
    try:
        found = preview_kept(job, row)
    except (Busy, OutOfTime) as error:
        raise BerthError("busy", str(error), status=503) from error
    if not isinstance(found, Picture):
        raise NotFound("picture")
    if request.headers.get("If-None-Match") == headers["ETag"]:
        return HttpResponse(status=304, headers=headers)
    headers["Content-Length"] = str(row.size)
    return Streamed(artefact_pieces(job, row), content_type=found.content_type, headers=headers)
