"""The page of compared jobs, its live part, and its figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib.auth.decorators import login_required
from django.http import JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from portal.pages.dashboard.jobs.compare.chosen import Chosen
from portal.pages.dashboard.jobs.compare.curves import compared_figure
from portal.pages.dashboard.jobs.compare.page import compare_context
from portal.pages.dashboard.shell.frame import page_follow

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse


@login_required
@require_GET
def job_compare(request: HttpRequest) -> HttpResponse:
    """Show the jobs side by side, or with `fragment=table` the table alone, for live updates."""
    is_part = request.GET.get("fragment") == "table"
    if not is_part:
        page_follow(request, "cluster")
    context = {"compare": compare_context(Chosen.of(request.GET, request.user), request.user)}
    return render(request, "jobs/compare/_table.html" if is_part else "jobs/compare/page.html", context)


@login_required
@require_GET
def job_compare_figure(request: HttpRequest, name: str) -> JsonResponse:
    chosen = Chosen.of(request.GET, request.user)
    return JsonResponse(compared_figure(chosen, name, request.GET.get("curve", "")))
