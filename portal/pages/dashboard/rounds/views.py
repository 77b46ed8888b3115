"""The pages of plannings and rounds, and of figures over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.http import HttpResponse, JsonResponse
from django.shortcuts import render

from portal.foundation.api.streams import Streamed, csv_lines
from portal.foundation.errors import BerthError, NotFound
from portal.pages.dashboard.parts.snapshot import Snapshot
from portal.pages.dashboard.rounds import listing as rounds_listing
from portal.pages.dashboard.rounds import metrics as metrics_page
from portal.pages.dashboard.rounds import page as rounds_page
from portal.pages.dashboard.rounds.blocks import blocks_context
from portal.pages.dashboard.rounds.by_node import nodes_make
from portal.pages.dashboard.shell.frame import page_follow

if TYPE_CHECKING:
    from django.http import HttpRequest


def rounds(request: HttpRequest) -> HttpResponse:
    """The list of plannings, or with `?fragment=table` only its table; with `?each=yes` none stands for others."""
    page, fragment, each = request.GET.get("page"), request.GET.get("fragment"), request.GET.get("each")
    if each not in {None, "yes"}:
        raise BerthError("invalid", "`each` must be yes, or left out.", field="each")
    if fragment not in {None, "table"}:
        raise NotFound("fragment")
    if fragment is None:
        page_follow(request, "cluster")
    kept = {name: value for name, value in (("each", each), ("page", page)) if value}
    context = {**rounds_listing.rounds_context(page, each=bool(each)), "query": f"?{urlencode(kept)}" if kept else ""}
    return render(request, "rounds/_table.html" if fragment else "rounds/list.html", context)


def planning_detail(request: HttpRequest, number: int) -> HttpResponse:
    return render(
        request, "rounds/detail.html", rounds_page.planning_context(number, request.user, request.GET.get("page"))
    )


def rounds_metrics(request: HttpRequest) -> HttpResponse:
    """Figures over time, or with `?fragment=` the nodes' table, and for operators what would fit free GPUs."""
    fragment = request.GET.get("fragment")
    parts = {"nodes", "blocks"} if request.user.is_operator else {"nodes"}
    if fragment not in {None, *parts}:
        raise NotFound("fragment")
    if fragment is None:
        page_follow(request, "cluster")
    span, snapshot = metrics_page.Span(request.GET.get("range"), request.user), Snapshot(request.user)
    context: dict[str, Any] = {} if fragment else metrics_page.metrics_context(span)
    if fragment in {None, "nodes"}:
        context["nodes"] = nodes_make(snapshot, span)
    if fragment in {None, "blocks"} and "blocks" in parts:
        context["blocks"] = blocks_context(snapshot)
    template = {"nodes": "rounds/_nodes.html", "blocks": "rounds/_blocks.html"}.get(
        fragment or "", "rounds/metrics.html"
    )
    return render(request, template, context)


def rounds_figure(request: HttpRequest, name: str) -> HttpResponse:
    return JsonResponse(metrics_page.metrics_figure(name, request.GET.get("range"), request.user))


def rounds_csv(request: HttpRequest) -> HttpResponse:
    names = (*metrics_page.COLUMNS, "types")
    rows = metrics_page.metrics_csv(metrics_page.Span(request.GET.get("range"), request.user, names))
    response = Streamed(csv_lines(rows), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = 'attachment; filename="berth-figures.csv"'
    return response
