"""The planner's offers for one waiting job: kept a while, worked out anew by one reader at a time.

A reader gets what is kept while it is of the last planning, or young; older than that only together with who works it out
anew. So one who loads a page a hundred times plans a few times at most, and two portals do not both plan for one job.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.db.models import Q
from django.utils import timezone

from portal.jobs.services.asked.widening import asked_of, widening_refused
from portal.jobs.states import JobState
from portal.offers.models import JobOffers
from portal.rounds.asking.offers import offers_work
from portal.rounds.read.selectors import planning_last
from portal.rounds.settings.knobs import knobs_current

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from portal.jobs.models import Job

YOUNG_S = 20.0
"""Kept for so long in any case, and for ten times what it took."""
SHARE_OF_TIME = 10.0
OLD_S = 300.0
"""Worked out anew after so long even where no planning came since: expected ends move."""
CLAIM = timedelta(seconds=30)


@dataclass(frozen=True)
class Kept:
    """`answer`: of `at`, {} before the first one. `fresh`: it need not be worked out anew. `working`: somebody does."""

    answer: dict[str, Any]
    at: datetime | None
    fresh: bool
    working: bool = False


def is_asked_about(job: Job) -> bool:
    """Say whether offers are worked out for such a job: a single one that waits for its turn."""
    return job.state == JobState.PENDING and not job.array_size and job.cancel_requested_at is None


def offers_kept(job: Job) -> Kept:
    """Return what is kept, without working anything out. Two queries."""
    row = JobOffers.objects.filter(job_id=job.pk).first()
    if row is None or row.at is None or row.asked != asked_of(job):
        return Kept({}, None, fresh=False, working=row is not None and _is_claimed(row))
    return Kept(row.answer, row.at, fresh=_is_fresh(row), working=_is_claimed(row))


def _is_claimed(row: JobOffers) -> bool:
    return row.until is not None and row.until > timezone.now()


def _is_fresh(row: JobOffers) -> bool:
    age_s = (timezone.now() - row.at).total_seconds()
    if not 0 <= age_s < OLD_S:
        return False
    if age_s < max(YOUNG_S, SHARE_OF_TIME * row.took_s):
        return True
    last = planning_last()
    return last is not None and last.number == row.planning_number


def offers_of(job: Job, *, allow: Callable[[], object]) -> Kept:
    """Return the offers, worked out anew where what is kept is too old. `allow` raises where the reader asked too often.

    Raises BerthError: `busy` (429), `invalid` and `not_waiting` (409).
    """
    kept = offers_kept(job)
    if kept.fresh or kept.working or not is_asked_about(job):
        return kept
    allow()
    if not _claim(job):
        return Kept(kept.answer, kept.at, fresh=False, working=True)
    return _worked_out(job)


def _claim(job: Job) -> bool:
    now = timezone.now()
    JobOffers.objects.get_or_create(job_id=job.pk)
    free = JobOffers.objects.filter(Q(until=None) | Q(until__lte=now), job_id=job.pk)
    return bool(free.update(until=now + CLAIM))


def _worked_out(job: Job) -> Kept:
    began_s = time.monotonic()
    last = planning_last()
    values: dict[str, Any] = {}
    try:
        answer = _takeable(job, offers_work(job))
        values = {
            "answer": answer,
            "at": timezone.now(),
            "asked": asked_of(job),
            "planning_number": last.number if last else 0,
            "took_s": time.monotonic() - began_s,
        }
    finally:
        JobOffers.objects.filter(job_id=job.pk).update(until=None, **values)
    return Kept(values["answer"], values["at"], fresh=True)


def _takeable(job: Job, answer: dict[str, Any]) -> dict[str, Any]:
    """Leave out what the job's description does not allow to change."""
    r_num = knobs_current()["r_num"]
    offers = [each for each in answer["offers"] if widening_refused(job, each["change"], r_num=r_num) is None]
    return {**answer, "offers": offers}
