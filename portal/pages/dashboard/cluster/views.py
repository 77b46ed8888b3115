"""The page of a partition of another scheduler. It needs a sign-in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.shortcuts import render

from portal.pages.dashboard.cluster import engines
from portal.pages.dashboard.shell.frame import page_follow

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse


def engine_detail(request: HttpRequest, number: int) -> HttpResponse:
    page_follow(request, "cluster")
    context = engines.engine_context(request.user, number, page=request.GET.get("page"))
    return render(request, "cluster/engine.html", context)


def engine_fragment(request: HttpRequest, number: int, fragment: str) -> HttpResponse:
    context = engines.fragment_context(request.user, number, fragment, page=request.GET.get("page"))
    return render(request, f"cluster/_engine_{fragment}.html", context)
