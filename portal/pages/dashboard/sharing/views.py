"""The page Sharing. It names jobs of all tenants, so it is for operators; others find nothing there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from portal.foundation.errors import BerthError, NotFound
from portal.pages.dashboard.sharing.page import Asked, sharing_context, use_figure
from portal.pages.dashboard.sharing.proposals import curve_figure
from portal.pages.dashboard.shell.frame import page_follow
from portal.planning.sharing.proposing import proposal_ask, proposal_decide

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

DECIDED = {
    "accept": "Accepted: the next planning reads the new file. sharing_policy and sharing_shadow stay as they are.",
    "reject": "Rejected: the present file stays.",
}


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


@login_required
@require_GET
def sharing_curve(request: HttpRequest, number: int) -> JsonResponse:
    _asked(request)
    return JsonResponse(curve_figure(number))


@login_required
@require_POST
def sharing_train(request: HttpRequest) -> HttpResponse:
    _asked(request)
    try:
        proposal_ask(actor=request.user)
        messages.success(
            request, "A training begins within a minute, on the laboratory's worker. Nothing is switched by it."
        )
    except BerthError as error:
        messages.error(request, error.detail)
    return redirect("sharing")


@login_required
@require_POST
def sharing_decide(request: HttpRequest, number: int, verb: str) -> HttpResponse:
    _asked(request)
    try:
        proposal_decide(number=number, verb=verb, actor=request.user)
        messages.success(request, DECIDED[verb])
    except NotFound:
        raise
    except BerthError as error:
        messages.error(request, error.detail)
    return redirect("sharing")


def _asked(request: HttpRequest) -> Asked:
    if not request.user.is_operator:
        raise NotFound("page")
    return Asked(request.GET.get("range"), request.GET.get("only"))
