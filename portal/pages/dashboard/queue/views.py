"""The queue page and its live part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.shortcuts import render

from portal.foundation.errors import NotFound
from portal.pages.dashboard.parts.snapshot import Snapshot
from portal.pages.dashboard.queue.page import queue_context
from portal.pages.dashboard.shell.frame import page_follow

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse


def queue(request: HttpRequest) -> HttpResponse:
    """Show who waits, or with `?fragment=list` only that part, for live updates."""
    fragment = request.GET.get("fragment")
    if fragment not in {None, "list"}:
        raise NotFound("fragment")
    if fragment is None:
        page_follow(request, "cluster")
    context = {"queue": queue_context(Snapshot(request.user), request.GET)}
    return render(request, "queue/_list.html" if fragment else "queue/page.html", context)
