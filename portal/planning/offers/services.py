"""The changes that would start a waiting job: kept a while, worked out anew by one reader at a time, and taken.

A reader gets what is kept while it is of the last planning, or young. Older answers are worked out anew by the first
reader who asks. So a page that is loaded a hundred times plans a few times at most, and two portals do not both plan for one job.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q
from django.utils import timezone

from portal.foundation.errors import BerthError, Conflict
from portal.people.tenants.models import User
from portal.planning.offers.models import JobOffers
from portal.planning.rounds.asking.changes import CHANGES, changes_work
from portal.planning.rounds.read.selectors import planning_last
from portal.planning.rounds.settings.knobs import knobs_current
from portal.work.jobs.models import Job
from portal.work.jobs.services.asked.editing import asked_of, job_widen
from portal.work.jobs.states import QUEUED, JobState

KEPT_MIN_S = 20.0
KEPT_TIMES_TOOK = 10.0
"""An answer is kept for this many times as long as it took."""
KEPT_MAX_S = 300.0  # expected ends move, also where no planning came since
CLAIM = timedelta(seconds=30)
NOTHING: Mapping[str, Any] = {
    "starts_now": False,
    "over_at": None,
    "start": None,
    "changes": [],
    "offers": [],
    "gathering": None,
}


@dataclass(frozen=True)
class Kept:
    """`answer`: of `at`, as `changes_work` gives it; `NOTHING` before the first one. `fresh`: it need not be worked out anew.
    `working`: somebody does.
    """

    answer: Mapping[str, Any]
    at: datetime | None
    fresh: bool
    working: bool = False


def is_offered(job: Job) -> bool:
    """Say whether its tenant may take a change: a single job that waits for its turn."""
    return job.state == JobState.PENDING and not job.array_size and job.cancel_requested_at is None


def offers_kept(job: Job) -> Kept:
    """Return the kept answer, without working anything out. Two queries."""
    row = JobOffers.objects.filter(job_id=job.pk).first()
    working = row is not None and row.until is not None and row.until > timezone.now()
    if row is None or row.at is None or row.asked != _asked(job):
        return Kept(NOTHING, None, fresh=False, working=working)
    return Kept(row.answer, row.at, fresh=_is_fresh(row), working=working)


def _asked(job: Job) -> dict[str, Any]:
    """Return the job's own values that its answer depends on."""
    return {**asked_of(job), "state": job.state, "length": [job.expected_duration_s, job.time_limit_s]}


def _is_fresh(row: JobOffers) -> bool:
    age_s = (timezone.now() - row.at).total_seconds()
    if not 0 <= age_s < KEPT_MAX_S:
        return False
    if age_s < max(KEPT_MIN_S, KEPT_TIMES_TOOK * row.took_s):
        return True
    last = planning_last()
    return last is not None and last.number == row.planning_number


def offers_of(job: Job, *, allow: Callable[[], object]) -> Kept:
    """Return the changes, worked out anew where what is kept is too old. `allow` raises where the reader asked too often.

    Raises BerthError: `busy` (429), `invalid` and `not_waiting` (409).
    """
    kept = offers_kept(job)
    if kept.fresh or kept.working or job.state not in QUEUED or job.array_size:
        return kept
    allow()
    now = timezone.now()
    JobOffers.objects.get_or_create(job_id=job.pk)
    free = JobOffers.objects.filter(Q(until=None) | Q(until__lte=now), job_id=job.pk)
    if not free.update(until=now + CLAIM):
        return Kept(kept.answer, kept.at, fresh=False, working=True)
    return _worked_out(job)


def _worked_out(job: Job) -> Kept:
    began_s, last, values = time.monotonic(), planning_last(), {}
    try:
        values = {
            "answer": changes_work(job),
            "at": timezone.now(),
            "asked": _asked(job),
            "planning_number": last.number if last else 0,
            "took_s": time.monotonic() - began_s,
        }
    finally:
        JobOffers.objects.filter(job_id=job.pk).update(until=None, **values)
    return Kept(values["answer"], values["at"], fresh=True)


def changes_of(job: Job, *, allow: Callable[[], object]) -> Kept:
    """Return as `offers_of` does, for a reader who cannot ask again by itself: `busy` (429) while there is no answer yet."""
    kept = offers_of(job, allow=allow)
    if kept.at is None and kept.working:
        raise BerthError("busy", "This question is being worked out; ask again in a few seconds.", status=429)
    return kept


def offer_accept(*, job: Job, actor: User, change: str, value: Any) -> Job:
    """Change the job as an offer says, and let it be planned. It is planned again first.

    Raises BerthError: `unknown_offer` (400), `not_waiting` and `changed` (409), `offer_gone` (409) where it no longer holds,
    `busy` (429) while another question is worked out.
    """
    if change not in CHANGES:
        raise BerthError("unknown_offer", f"`change` must be one of {', '.join(CHANGES)}.", field="change")
    if not is_offered(job):
        raise Conflict("not_waiting", f"Job {job.number} does not wait for its turn; nothing was changed.")
    seen, was = asked_of(job), _find(offers_kept(job).answer["offers"], change, value)
    if was is None or not was["gains"]:
        detail = "This is not among the offers for the job now; load them anew. Nothing was changed."
        raise Conflict("offer_gone", detail, field="value")
    value, words, r_num = was["value"], was["words"], knobs_current()["r_num"]
    now = _find(changes_work(job, (change, value))["changes"], change, value)
    JobOffers.objects.filter(job_id=job.pk).update(at=None)
    if now is None or not now["gains"]:
        detail = (
            "This offer no longer holds: planned again, the job would not be over sooner with it. Nothing was changed."
        )
        raise Conflict("offer_gone", detail, field="value")
    if was["starts"] and not now["starts"]:
        detail = "This offer no longer holds: the job would be over sooner with it, but not start at once. Nothing was changed."
        raise Conflict("offer_gone", detail, field="value")
    return job_widen(job=job, actor=actor, change=change, value=value, seen=seen, r_num=r_num, words=words)


def _find(changes: list[dict[str, Any]], change: str, value: Any) -> dict[str, Any] | None:
    wanted = sorted(value) if isinstance(value, list) and all(isinstance(each, str) for each in value) else value
    found = (each for each in changes if each["change"] == change and each["value"] == wanted)
    return None if isinstance(wanted, bool) else next(found, None)
