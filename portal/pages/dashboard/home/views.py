"""The overview of my jobs or of the cluster: its parts, and how long each is kept for its reader."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse

from portal.foundation.api.throttles import PlanThrottle, throttle_check
from portal.foundation.errors import BerthError, NotFound
from portal.pages.dashboard.board.feed import HORIZONS_H, stream_of
from portal.pages.dashboard.home.cluster import cluster_make
from portal.pages.dashboard.home.jobs import jobs_make
from portal.pages.dashboard.home.needs import needs_make
from portal.pages.dashboard.home.scope import CLUSTER, Scope, scope_of, tenants_shown, view_choices
from portal.pages.dashboard.home.share import share_make
from portal.pages.dashboard.overview.page import overview_context
from portal.pages.dashboard.parts.snapshot import Snapshot, fragment_answer, page_numbers
from portal.pages.dashboard.shell.frame import page_follow
from portal.people.accounts.lists import WHATS, looked_at
from portal.planning.offers.services import is_offered, offers_of
from portal.work.jobs.models import Job
from portal.work.jobs.states import JobState

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.http import HttpRequest

    from portal.foundation.events.shared import Sharing
    from portal.pages.dashboard.parts.context import Choice


EVERY_S = 3.0
"""A part is made anew for one reader no more often than this, however many events come and tabs are open."""

PARTS: dict[str, Callable[[Scope, Snapshot], Any]] = {
    "needs": lambda scope, _: needs_make(scope),
    "jobs": lambda scope, _: jobs_make(scope),
    "share": lambda scope, snapshot: share_make(scope, gpus_total=snapshot.gpus_total),
    "cluster": cluster_make,
}


def home_context(scope: Scope, snapshot: Snapshot) -> dict[str, Any]:
    """Return the page's frame, and its parts in `html`."""
    return {
        "views": view_choices(scope.user, scope.tenants, scope.view),
        "view": scope.view,
        "mine": scope.is_mine,
        "html": {name: part_html(name, scope, snapshot) for name in PARTS},
    }


def part_html(name: str, scope: Scope, snapshot: Snapshot) -> str:
    """Return one part's HTML, kept for a few seconds for its reader. Raises NotFound for an unknown name."""
    make = PARTS.get(name)
    if make is None:
        raise NotFound("part of the page")

    def rendered(inner: Sharing) -> str:
        own = Snapshot(snapshot.user, sharing=inner, reader=snapshot.reader)
        return render_to_string(f"home/_{name}.html", {name: make(scope, own), "view": scope.view})

    html: str = snapshot.sharing.get(f"home:{name}:{scope.key}", rendered, every_s=EVERY_S)
    return html


JOBS_MOST = 200


def overview_page(request: HttpRequest) -> HttpResponse:
    """Show my jobs, my tenant's, or the cluster: as the address asks, else as the last time."""
    scope = scope_of(request)
    if scope is None:
        return cluster_overview(request, view_choices(request.user, tenants_shown(request), CLUSTER))
    page_follow(request, "cluster")
    snapshot = Snapshot(request.user)
    context = home_context(scope, snapshot)
    page_numbers(request, snapshot.sharing)
    return render(request, "home/home.html", context)


def home_part(request: HttpRequest, name: str) -> HttpResponse:
    scope = scope_of(request)
    if scope is None:
        raise NotFound("part of the page")
    snapshot = Snapshot(request.user)
    return fragment_answer(part_html(name, scope, snapshot), snapshot.sharing)


def home_offer(request: HttpRequest) -> HttpResponse:
    """Let the planner work out what would start my job that waits longest sooner, where nobody did lately."""
    waiting = Job.objects.visible_to(request.user).top_level().filter(owner=request.user, state=JobState.PENDING)
    job = waiting.filter(array_size=None).order_by("pk").first()
    if job is not None and is_offered(job):
        try:
            offers_of(job, allow=partial(throttle_check, request, PlanThrottle))
        except BerthError:
            return HttpResponse(status=204)  # the kept answer stands; the next load asks again
    return HttpResponse(status=204)


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


def cluster_overview(request: HttpRequest, views: list[Choice]) -> HttpResponse:
    """Show it to an operator. `views`: the switch to other overviews."""
    page_follow(request, "cluster", stream_of(HORIZONS_H[0]))
    snapshot = Snapshot(request.user)
    context = {**overview_context(snapshot), "views": views}
    page_numbers(request, snapshot.sharing)
    return render(request, "dashboard/overview.html", context)
