"""The overview of the whole cluster as an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.shortcuts import render

from portal.pages.dashboard.board.feed import stream_of
from portal.pages.dashboard.board.horizons import horizon
from portal.pages.dashboard.overview.page import overview_context
from portal.pages.dashboard.parts.sharing_html import page_numbers
from portal.pages.dashboard.parts.snapshot import Snapshot
from portal.pages.dashboard.shell.frame import page_follow

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from portal.pages.dashboard.parts.context import Choice


def cluster_overview(request: HttpRequest, views: list[Choice]) -> HttpResponse:
    """Show it to a signed-in reader. `views`: the switch to other overviews."""
    hours = horizon(request.GET.get("h"))
    page_follow(request, "cluster", stream_of(hours))
    snapshot = Snapshot(request.user, hours=hours)
    context = {**overview_context(snapshot), "views": views}
    page_numbers(request, snapshot.sharing)
    return render(request, "dashboard/overview.html", context)
