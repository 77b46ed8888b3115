"""Which tasks of an array a word of its page is for, and how many there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db.models import Q

from portal.pages.dashboard.jobs.rows import SEGMENTS
from portal.work.jobs.states import RETRIED

if TYPE_CHECKING:
    from portal.work.jobs.models import Job

PAGE_ROWS = 50


def kept(job: Job, word: str) -> Q:
    """Return which tasks a word of the page, or a bad end, is for. A failed one that shall be tried again waits."""
    states = Q(state__in=SEGMENTS.get(word, (word,)))
    if not job.array_retries or word not in {"wait", "fail", *RETRIED}:
        return states
    again = Q(retry_asked_at__isnull=False)
    return states | again if word == "wait" else states & ~again


def size_of(job: Job, word: str) -> int:
    """Count the rows of these tasks; only one bad end of an array with tasks to be tried again is counted in the table."""
    if word in RETRIED and job.array_retries:
        return job.tasks.filter(kept(job, word)).count()
    again = {"wait": job.array_retries, "fail": -job.array_retries}.get(word, 0)
    return sum(job.array_counts.get(state, 0) for state in SEGMENTS.get(word, (word,))) + again
