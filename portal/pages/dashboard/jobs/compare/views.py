"""The page of compared jobs, its live part, and its figures."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from django.http import JsonResponse
from django.shortcuts import render

from portal.pages.dashboard.jobs.compare.chosen import MOST, Chosen, offered
from portal.pages.dashboard.jobs.compare.curves import TOKENS, compared_figure, curves_make, legend_of, measured_make
from portal.pages.dashboard.jobs.compare.rows import asked_rows, course_rows
from portal.pages.dashboard.jobs.rows import rows_of
from portal.pages.dashboard.shell.frame import page_follow

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from portal.pages.dashboard.parts.context import Choice
    from portal.people.tenants.models import User


def job_compare(request: HttpRequest) -> HttpResponse:
    """Show the jobs side by side, or with `fragment=table` only the table, for live updates."""
    is_part = request.GET.get("fragment") == "table"
    if not is_part:
        page_follow(request, "cluster")
    context = {"compare": compare_context(Chosen.of(request.GET, request.user), request.user)}
    return render(request, "jobs/compare/_table.html" if is_part else "jobs/compare/page.html", context)


def job_compare_figure(request: HttpRequest, name: str) -> JsonResponse:
    chosen = Chosen.of(request.GET, request.user)
    return JsonResponse(compared_figure(chosen, name, request.GET.get("curve", "")))


def compare_context(chosen: Chosen, user: User) -> dict[str, Any]:
    """Fill the page. The number of queries grows with the jobs on it, of which there are four at most."""
    jobs = chosen.jobs
    heads, course, whose = _heads(chosen), [], ""
    if jobs:
        first = jobs[0]
        whose = f"Other tasks of #{first.array_id}" if first.array_id else f"Latest jobs of {first.owner.username}"
    apart, alike, more = asked_rows(jobs) if len(jobs) > 1 else ([], [], 0)
    if len(jobs) > 1:
        course = course_rows(jobs, [head["row"] for head in heads])
    return {
        "jobs": heads,
        "numbers": [job.number for job in jobs],
        "apart": apart,
        "apart_more": more,  # rows that are left out
        "course": course,
        "alike": alike,
        "curves": curves_make(chosen) if len(jobs) > 1 else None,
        "measured": measured_make(chosen) if len(jobs) > 1 else [],
        "legend": legend_of(jobs),
        "can_add": len(jobs) < MOST,
        "most": MOST,
        "offered": _offered(chosen, user) if len(jobs) == 1 else [],
        "offered_of": whose,
        "query": chosen.url().partition("?")[2],
    }


def _heads(chosen: Chosen) -> list[dict[str, Any]]:
    jobs = chosen.jobs
    return [
        {
            "row": row,
            "token": token,
            "without_url": replace(chosen, jobs=tuple(each for each in jobs if each != job)).url()
            if len(jobs) > 2
            else None,
        }
        for row, job, token in zip(rows_of(jobs), jobs, TOKENS, strict=False)
    ]


def _offered(chosen: Chosen, user: User) -> list[Choice]:
    return [
        {
            "value": job.state,
            "label": f"#{job.number} {job.name}",
            "selected": False,
            "url": replace(chosen, jobs=(*chosen.jobs, job)).url(),
        }
        for job in offered(chosen.jobs[0], user)
    ]
