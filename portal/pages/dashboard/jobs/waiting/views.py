"""A waiting job's cards as they are now, and the press on one of its offers."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.shortcuts import redirect, render

from portal.foundation.api.throttles import PlanThrottle, throttle_check
from portal.foundation.errors import BerthError
from portal.pages.dashboard.jobs.waiting.page import is_asked, waiting_make
from portal.planning.offers.services import offer_accept, offers_of
from portal.work.jobs.listing import job_find

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from portal.work.jobs.models import Job

MOST_VALUE = 2000


def job_waiting(request: HttpRequest, number: str) -> HttpResponse:
    """Answer with the cards; the changes are worked out anew where what is kept is too old."""
    return _card(request, job_find(user=request.user, number=number))


def _card(request: HttpRequest, job: Job, said: dict[str, Any] | None = None) -> HttpResponse:
    kept, note = None, None
    try:
        kept = offers_of(job, allow=partial(throttle_check, request, PlanThrottle)) if is_asked(job) else None
    except BerthError as error:
        note = error.detail
    return render(request, "jobs/waiting/_card.html", {"waiting": waiting_make(job, kept, said=said, note=note)})


def job_offer(request: HttpRequest, number: str) -> HttpResponse:
    """Take an offer. A refusal is said in its row, and changes nothing."""
    job = job_find(user=request.user, number=number)
    change, value = request.POST.get("change", ""), request.POST.get("value", "")
    try:
        throttle_check(request, PlanThrottle)
        offer_accept(job=job, actor=request.user, change=change, value=_value(value))
    except BerthError as error:
        text, done = error.detail, False
    else:
        text, done = "Accepted. The planner places it now.", True
    if request.htmx:
        job.refresh_from_db()
        return _card(request, job, {"change": change, "value": value, "text": text})
    (messages.success if done else messages.error)(request, text)
    return redirect("job-detail", number=job.number)


def _value(text: str) -> Any:
    if len(text) > MOST_VALUE:
        raise BerthError("too_long", "`value` is too long.", field="value")
    try:
        return json.loads(text)
    except ValueError as error:
        raise BerthError("invalid", "`value` must be JSON, as the offer gave it.", field="value") from error
