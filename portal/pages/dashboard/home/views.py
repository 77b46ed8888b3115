"""The overview of my jobs, its live parts, and what a reader puts aside."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from portal.foundation.api.throttles import PlanThrottle, throttle_check
from portal.foundation.errors import BerthError, NotFound
from portal.pages.dashboard.board.horizons import horizon
from portal.pages.dashboard.home.page import home_context, part_html
from portal.pages.dashboard.home.scope import CLUSTER, scope_of, tenants_shown, view_choices
from portal.pages.dashboard.overview.shown import cluster_overview
from portal.pages.dashboard.parts.sharing_html import fragment_answer, page_numbers
from portal.pages.dashboard.parts.snapshot import Snapshot
from portal.pages.dashboard.shell.frame import page_follow
from portal.people.accounts.looked import WHATS, looked_at
from portal.planning.offers.services import is_offered, offers_of
from portal.work.jobs.models import Job
from portal.work.jobs.states import JobState

if TYPE_CHECKING:
    from django.http import HttpRequest

JOBS_MOST = 200


@login_required
@require_GET
def overview_page(request: HttpRequest) -> HttpResponse:
    """Show my jobs, my tenant's, or the cluster: what the address asks for, else what was chosen last."""
    horizon(request.GET.get("h"))  # refuses what is none, whatever is shown
    scope = scope_of(request)
    if scope is None:
        return cluster_overview(request, view_choices(tenants_shown(request), CLUSTER))
    page_follow(request, "cluster")
    snapshot = Snapshot(request.user)
    context = home_context(scope, snapshot)
    page_numbers(request, snapshot.sharing)
    return render(request, "home/home.html", context)


@login_required
@require_GET
def home_part(request: HttpRequest, name: str) -> HttpResponse:
    scope = scope_of(request)
    if scope is None:
        raise NotFound("part of the page")
    snapshot = Snapshot(request.user)
    return fragment_answer(part_html(name, scope, snapshot), snapshot.sharing)


@login_required
@require_GET
def home_offer(request: HttpRequest) -> HttpResponse:
    """Let the planner work out what would start my job that waits longest sooner, where nobody did lately."""
    waiting = Job.objects.visible_to(request.user).top_level().filter(owner=request.user, state=JobState.PENDING)
    job = waiting.filter(array_size=None).order_by("pk").first()
    if job is not None and is_offered(job):
        try:
            offers_of(job, allow=partial(throttle_check, request, PlanThrottle))
        except BerthError:
            return HttpResponse(status=204)  # what is kept stands; the next load asks again
    return HttpResponse(status=204)


@login_required
@require_POST
def home_dismiss(request: HttpRequest) -> HttpResponse:
    """Put a line of "Needs you" aside. Only jobs that the reader may see are noted."""
    what, named = request.POST.get("what", ""), request.POST.get("jobs", "")
    if what not in WHATS:
        raise BerthError("invalid", f"`what` must be one of {', '.join(WHATS)}.", field="what")
    numbers = [
        int(each) for each in named.split(",")[:JOBS_MOST] if each.isascii() and each.isdigit() and len(each) < 19
    ]
    ids = list(Job.objects.visible_to(request.user).filter(pk__in=numbers).values_list("pk", flat=True))
    looked_at(user=request.user, job_ids=ids, what=what)
    if not request.htmx:
        return redirect(reverse("overview"))
    scope = scope_of(request)
    if scope is None:
        return HttpResponse("")
    snapshot = Snapshot(request.user)
    snapshot.sharing.forget(f"home:needs:{scope.key}")
    return HttpResponse(part_html("needs", scope, snapshot))
