"""Every error of the API has one shape: `{"error": {"code", "field", "detail"}}`. The one place that makes it."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse, UnreadablePostError
from rest_framework import exceptions
from rest_framework.response import Response

from portal.foundation.disk import RETRY_AFTER_S as DISK_RETRY_AFTER_S
from portal.foundation.disk import DiskLow, disk_full_error
from portal.foundation.errors import BerthError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

log = logging.getLogger(__name__)

_CODES = {
    400: ("bad_request", "The request is malformed."),
    401: ("not_authenticated", "Send `Authorization: Bearer TOKEN`."),
    403: ("forbidden", "You may not do this."),
    404: ("not_found", "No such object, or you may not see it."),
    405: ("method_not_allowed", "This path does not know that method."),
    406: ("not_acceptable", "Berth answers in JSON."),
    413: ("too_large", "The body is larger than 1.5 MiB; put large input on storage that the nodes can read."),
    415: ("unsupported_media_type", "Send JSON with `Content-Type: application/json`."),
    429: ("too_many_requests", "Too many requests; wait a little."),
    500: ("internal_error", "Berth failed to answer; the operator's log says why."),
    507: ("disk_low", "The portal's disk is full; nothing was changed. Try again later, or tell the operator."),
    503: ("unavailable", "The database does not answer at the moment; try again shortly."),
}
_STATUSES: dict[type[Exception], int] = {
    Http404: 404,
    RequestDataTooBig: 413,
    PermissionDenied: 403,
    SuspiciousOperation: 400,
    UnreadablePostError: 400,
    OperationalError: 503,
    InterfaceError: 503,
}
"""Django's errors, the first match counting: a body too big is also a suspicious operation."""


def exception_handler(exception: Exception, context: Mapping[str, Any]) -> Response | None:
    """Answer an exception of an API view. None: it is a fault of Berth's, which Django logs and answers."""
    error, headers = error_of(exception)
    if error is None:
        return None
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if error.status == 503:
        log.error("%s: the database does not answer: %s", context["request"].path, exception)
    return Response(error.envelope(), status=error.status, headers=headers)


def error_of(exception: Exception) -> tuple[BerthError | None, dict[str, str]]:
    """Return the refusal an exception stands for, and the headers it needs."""
    if (full := disk_full_error(exception)) is not None:
        exception = full
    if isinstance(exception, DiskLow):
        return exception, {"Retry-After": str(DISK_RETRY_AFTER_S)}
    if isinstance(exception, BerthError):
        return exception, exception.headers
    if isinstance(exception, exceptions.Throttled):
        return plain_error(429), {"Retry-After": str(math.ceil(exception.wait or 1))}
    if isinstance(exception, exceptions.APIException):
        return framework_error(exception), {}
    for kind, status in _STATUSES.items():
        if isinstance(exception, kind):
            return plain_error(status), plain_error(status).headers
    return None, {}


def framework_error(exception: exceptions.APIException) -> BerthError:
    """Keep the code that a view gave; of a serializer's findings the first one, with the path of its field."""
    if not isinstance(exception, (exceptions.ValidationError, exceptions.AuthenticationFailed)):
        return plain_error(exception.status_code)
    found: Any = exception.detail
    path: list[str] = []
    while isinstance(found, (dict, list)) and found:
        name, found = next(iter(found.items())) if isinstance(found, dict) else ("", found[0])
        path.append(str(name))
    code = getattr(found, "code", None) or "invalid"
    field = ".".join(part for part in path if part and part != "non_field_errors") or None
    return BerthError(code, str(found), field=field, status=exception.status_code)


def plain_error(status: int) -> BerthError:
    code, detail = _CODES.get(status) or ("error", f"The request was refused with status {status}.")
    return BerthError(code, detail, status=status)


class ApiEnvelope:
    """Give the envelope also to errors that Django answers itself under /api/: no route, bad host, CSRF, a crash."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if response.status_code < 400 or not request.path_info.startswith("/api/"):
            return response
        if response.headers.get("Content-Type", "").partition(";")[0] == "application/json":
            return response
        answer = JsonResponse(plain_error(response.status_code).envelope(), status=response.status_code)
        for name in ("Allow", "Retry-After", "WWW-Authenticate"):
            if name in response.headers:
                answer.headers[name] = response.headers[name]
        return answer
