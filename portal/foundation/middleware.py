"""Middleware of every request: the content security policy, and the one place that turns a BerthError into a page.

Answers travel compressed, where that gives nobody a secret away.

Compressing a secret beside text that an attacker chooses tells the secret by the answer's length (BREACH). So only answers
to GET are compressed: what shows a secret once (a new API or join token) answers a POST. Django masks the CSRF token anew
in each page, and its compression adds a few random bytes to each answer. Pages whose text comes from the address are not
compressed (`ECHOES`) where it has a query: they repeat text that a link made somebody's browser send. Streams (a followed
log, a CSV, server-sent events) go out as they come. Static files are compressed when they are collected (`StaticFiles`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.middleware.gzip import GZipMiddleware
from django.shortcuts import render
from whitenoise.storage import CompressedManifestStaticFilesStorage

from portal.foundation.checks import null_character
from portal.foundation.disk import disk_full_error
from portal.foundation.errors import BerthError, NotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


STRICT = (
    "default-src 'none'; script-src 'self'; style-src 'self' {plots}; img-src 'self' data: blob:; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; manifest-src 'self'"
)
# Plotly sets style attributes and one style element from script; browsers ask for 'unsafe-inline' styles for that.
PAGE = STRICT.format(plots="'unsafe-inline'")


class ContentSecurityPolicy:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response.headers.setdefault("Content-Security-Policy", PAGE)
        return response


OWN_PAGES = (403, 404, 410, 507)
"""Refusals with a page of their own; the others share one."""


class BerthErrors:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(
        self, request: HttpRequest, _view: Callable[..., HttpResponse], _args: list[str], named: dict[str, Any]
    ) -> HttpResponse | None:
        """Refuse what no database takes before a view asks one for it. REST's readers do so themselves, by field."""
        if any(
            "\0" in str(value) for name, value in named.items() if name != "number"
        ):  # no database is asked for that
            return self.process_exception(request, NotFound("page"))
        if not request.path.startswith("/api/"):
            for name, values in [*request.GET.lists(), *request.POST.lists()]:
                if any("\0" in text for text in (name, *values)):
                    return self.process_exception(request, null_character(name))
        return None

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """Answer a refused request as JSON to programs and as a page to people."""
        exception = disk_full_error(exception) or exception
        if not isinstance(exception, BerthError):
            return None
        if request.path.startswith("/api/") or "application/json" in request.headers.get("Accept", ""):
            return JsonResponse(exception.envelope(), status=exception.status, headers=exception.headers)
        template = f"errors/{exception.status if exception.status in OWN_PAGES else 400}.html"
        context = {"detail": exception.detail, "status": exception.status, "shell": None}
        response = render(request, template, context, status=exception.status)
        for name, value in exception.headers.items():
            response.headers[name] = value
        return response


TYPES = ("text/", "application/json", "application/vnd.oai.openapi")
ECHOES = ("/search", "/admin/", "/login")
SECRETS = "/admin/tenants/user/"
"""Where a new password is shown once, after a redirect."""


class Compression(GZipMiddleware):
    """Django's, for the answers that may be compressed."""

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        if not _may_be_compressed(request, response):
            return response
        return super().process_response(request, response)


def _may_be_compressed(request: HttpRequest, response: HttpResponse) -> bool:
    return (
        request.method == "GET"
        and response.status_code == 200
        and not response.streaming
        and response.get("Content-Type", "").startswith(TYPES)
        and not request.path.startswith(SECRETS)
        and not (request.path.startswith(ECHOES) and request.META.get("QUERY_STRING"))
    )


class StaticFiles(CompressedManifestStaticFilesStorage):
    """Static files by WhiteNoise, each compressed once: under the name with a hash of its content, by which pages ask for it.

    WhiteNoise compresses a file's copy under the plain name, too, which took a third of all that `collectstatic` needs.
    """

    def compress_files(self, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
        yield from super().compress_files(set(paths).intersection(self.hashed_files.values()))
