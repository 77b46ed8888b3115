"""What every request passes: a thread, the content security policy, and the one place that turns a BerthError into a page."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from asgiref.sync import ThreadSensitiveContext
from django.db import connections
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render

from portal.deep_calls import RoomyThread
from portal.disk import disk_full_error
from portal.errors import BerthError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

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

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """Answer a refused request as JSON to programs and as a page to people."""
        exception = disk_full_error(exception) or exception
        if not isinstance(exception, BerthError):
            return None
        if request.path.startswith("/api/") or "application/json" in request.headers.get("Accept", ""):
            return JsonResponse(exception.envelope(), status=exception.status)
        template = f"errors/{exception.status if exception.status in OWN_PAGES else 400}.html"
        context = {"detail": exception.detail, "status": exception.status, "shell": None}
        return render(request, template, context, status=exception.status)


MOST_FREE = 4
"""Threads, each with a connection, that wait for requests; one that is freed beyond them ends."""


class RequestThreads:
    """An ASGI application around Django's: runs requests on threads that stay, so that each finds an open database.

    Left to itself, Django gives every request a thread of its own, and with it a database that must be opened first: on
    SQLite the whole schema is read anew, on Postgres a server process is forked. Here a request takes a thread that is
    free, or a new one when none is.
    """

    def __init__(self, django: Callable[..., Awaitable[Any]]) -> None:
        self._django = django
        self._free: deque[RoomyThread] = deque()

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        thread = self._free.pop() if self._free else RoomyThread("request")
        try:
            async with ThreadSensitiveContext(executor=thread):
                await self._django(scope, receive, send)
        finally:
            thread.submit(self._put_back, thread)

    def _put_back(self, thread: RoomyThread) -> None:
        """Make a thread free. It does this itself, after whatever a request that broke off still does there."""
        if len(self._free) < MOST_FREE:
            self._free.append(thread)
            return
        connections.close_all()
        thread.shutdown(wait=False)
