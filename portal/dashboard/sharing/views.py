"""The page Sharing. It names jobs of all tenants, so it is for operators; others find nothing there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib.auth.decorators import login_required
from django.http import JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from portal.dashboard.sharing.page import Asked, sharing_context, use_figure
from portal.dashboard.shell.frame import page_follow
from portal.errors import NotFound

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse


@login_required
@require_GET
def sharing_page(request: HttpRequest) -> HttpResponse:
    asked = _asked(request)
    page_follow(request, "cluster")
    template = "sharing/_parts.html" if request.GET.get("fragment") else "sharing/page.html"
    return render(request, template, sharing_context(asked))


@login_required
@require_GET
def sharing_figure(request: HttpRequest) -> HttpResponse:
    return JsonResponse(use_figure(_asked(request)))


def _asked(request: HttpRequest) -> Asked:
    if not request.user.is_operator:
        raise NotFound("page")
    return Asked(request.GET.get("range"), request.GET.get("only"))
