"""Answers when Django itself refuses or fails: JSON to programs under /api/, a page to people."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from django.http import HttpResponse, JsonResponse
from django.shortcuts import render

from portal.foundation.disk import disk_full_error
from portal.foundation.errors import BerthError

if TYPE_CHECKING:
    from django.http import HttpRequest

CODES = {400: "bad_request", 403: "forbidden", 404: "not_found", 500: "internal"}
DETAILS = {
    400: "The request cannot be read.",
    403: "This is not allowed.",
    404: "No such path.",
    500: "Something failed on our side; nothing was changed that was not finished.",
}


def _answer(request: HttpRequest, status: int) -> HttpResponse:
    if request.path.startswith("/api/"):
        error = BerthError(CODES[status], DETAILS[status], status=status)
        return JsonResponse(error.envelope(), status=status)
    # No frame: after a failure the database may be what failed, and the frame reads it.
    return render(request, f"errors/{status}.html", {"shell": None}, status=status)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _answer(request, 400)


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _answer(request, 403)


def csrf_failed(request: HttpRequest, reason: str = "") -> HttpResponse:
    return _answer(request, 403)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _answer(request, 404)


def server_error(request: HttpRequest) -> HttpResponse:
    """Answer an error that no view handled. A full disk may also stop the writes of the session or the audit trail."""
    error = sys.exc_info()[1]
    full = disk_full_error(error) if error is not None else None
    if full is None:
        return _answer(request, 500)
    if request.path.startswith("/api/"):
        return JsonResponse(full.envelope(), status=full.status)
    return render(request, "errors/507.html", {"shell": None, "detail": full.detail}, status=507)
