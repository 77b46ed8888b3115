"""The page Sharing. It names jobs of all tenants, so the registry shows it to operators only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import messages
from django.http import JsonResponse
from django.shortcuts import redirect, render

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


def sharing_page(request: HttpRequest) -> HttpResponse:
    asked = _asked(request)
    page_follow(request, "cluster")
    template = "sharing/_parts.html" if request.GET.get("fragment") else "sharing/page.html"
    return render(request, template, sharing_context(asked))


def sharing_figure(request: HttpRequest) -> HttpResponse:
    return JsonResponse(use_figure(_asked(request)))


def sharing_curve(request: HttpRequest, number: int) -> JsonResponse:
    return JsonResponse(curve_figure(number))


def sharing_train(request: HttpRequest) -> HttpResponse:
    try:
        proposal_ask(actor=request.user)
        messages.success(
            request, "A training begins within a minute, on the laboratory's worker. Nothing is switched by it."
        )
    except BerthError as error:
        messages.error(request, error.detail)
    return redirect("sharing")


def sharing_decide(request: HttpRequest, number: int, verb: str) -> HttpResponse:
    try:
        proposal_decide(number=number, verb=verb, actor=request.user)
        messages.success(request, DECIDED[verb])
    except NotFound:
        raise
    except BerthError as error:
        messages.error(request, error.detail)
    return redirect("sharing")


def _asked(request: HttpRequest) -> Asked:
    return Asked(request.GET.get("range"), request.GET.get("only"))
