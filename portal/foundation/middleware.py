"""Middleware of every request: the content security policy, and the one place that turns a BerthError into a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render

from portal.foundation.checks import null_character
from portal.foundation.disk import disk_full_error
from portal.foundation.errors import BerthError, NotFound

if TYPE_CHECKING:
    from collections.abc import Callable

STRICT = (
    "default-src 'none'; script-src 'self'; style-src 'self' {plots}; img-src 'self' data: blob:; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; manifest-src 'self'"
)
# Plotly sets style attributes and one style element from script; browsers ask for 'unsafe-inline' styles for that.
PAGE = STRICT.format(plots="'unsafe-inline'")
# The console's theme writes its behaviour into attributes that Alpine evaluates; see docs/decisions on the policies.
CONSOLE = PAGE.replace("script-src 'self'", "script-src 'self' 'unsafe-eval'")
CONSOLE_PREFIX = "/admin/"


class ContentSecurityPolicy:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        policy = CONSOLE if request.path.startswith(CONSOLE_PREFIX) else PAGE
        response.headers.setdefault("Content-Security-Policy", policy)
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
