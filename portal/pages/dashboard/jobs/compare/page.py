"""Fill the page of compared jobs, or of one that is to be compared with others."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from portal.pages.dashboard.jobs.compare.chosen import MOST, offered
from portal.pages.dashboard.jobs.compare.curves import TOKENS, curves_make, legend_of, measured_make
from portal.pages.dashboard.jobs.compare.rows import asked_rows, course_rows
from portal.pages.dashboard.jobs.rows import rows_of

if TYPE_CHECKING:
    from portal.pages.dashboard.jobs.compare.chosen import Chosen
    from portal.pages.dashboard.jobs.compare.context import CompareContext, ComparedJob
    from portal.pages.dashboard.parts.context import Choice
    from portal.people.tenants.models import User
    from portal.work.jobs.models import Job


def compare_context(chosen: Chosen, user: User) -> CompareContext:
    """Fill the page. The number of queries grows with the jobs on it, of which there are four at most."""
    jobs = chosen.jobs
    heads, course = _heads(chosen), []
    apart, alike, more = asked_rows(jobs) if len(jobs) > 1 else ([], [], 0)
    if len(jobs) > 1:
        course = course_rows(jobs, [head["row"] for head in heads])
    return {
        "jobs": heads,
        "numbers": [job.number for job in jobs],
        "apart": apart,
        "apart_more": more,
        "course": course,
        "alike": alike,
        "curves": curves_make(chosen) if len(jobs) > 1 else None,
        "measured": measured_make(chosen) if len(jobs) > 1 else [],
        "legend": legend_of(jobs),
        "can_add": len(jobs) < MOST,
        "most": MOST,
        "offered": _offered(chosen, user) if len(jobs) == 1 else [],
        "offered_of": _offered_of(jobs[0]) if jobs else "",
        "query": chosen.url().partition("?")[2],
    }


def _offered_of(job: Job) -> str:
    return f"Other tasks of #{job.array_id}" if job.array_id else f"Latest jobs of {job.owner.username}"


def _heads(chosen: Chosen) -> list[ComparedJob]:
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
