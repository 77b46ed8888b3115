"""Take one of the planner's offers: it is planned again first, and where it no longer holds nothing changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from portal.errors import BerthError, Conflict
from portal.jobs.services.asked.widening import asked_of, job_widen
from portal.offers.keeping import is_asked_about, offers_kept
from portal.offers.models import JobOffers
from portal.offers.words import change_words
from portal.rounds.asking.offers import CHANGES, offer_tried
from portal.rounds.settings.knobs import knobs_current

if TYPE_CHECKING:
    from portal.jobs.models import Job
    from portal.tenants.models import User


def offer_accept(*, job: Job, actor: User, change: str, value: Any) -> Job:
    """Change the job as an offer says, and let it be planned.

    Raises BerthError: `unknown_offer` (400), `not_waiting` and `changed` (409), `offer_gone` (409) where it no longer holds,
    `busy` (429) while another question is worked out.
    """
    if change not in CHANGES:
        raise BerthError("unknown_offer", f"`change` must be one of {', '.join(CHANGES)}.", field="change")
    if not is_asked_about(job):
        raise Conflict("not_waiting", f"Job {job.number} does not wait for its turn; nothing was changed.")
    seen, was = asked_of(job), _find(offers_kept(job).answer, change, value)
    if was is None or not was["gains"]:
        detail = "This is not among the offers for the job now; load them anew. Nothing was changed."
        raise Conflict("offer_gone", detail, field="value")
    at_once, sooner = offer_tried(job, change, was["value"])
    if not sooner or (was["now"] and not at_once):
        _forget(job)
        raise Conflict("offer_gone", f"{_gone(sooner=sooner)} Nothing was changed.", field="value")
    words, r_num = change_words(was), knobs_current()["r_num"]
    job = job_widen(job=job, actor=actor, change=change, value=was["value"], seen=seen, r_num=r_num, words=words)
    _forget(job)
    return job


def _find(answer: dict[str, Any], change: str, value: Any) -> dict[str, Any] | None:
    wanted = sorted(value) if isinstance(value, list) and all(isinstance(each, str) for each in value) else value
    for each in answer.get("offers", ()):
        if each["change"] == change and each["value"] == wanted and not isinstance(wanted, bool):
            return each
    return None


def _gone(*, sooner: bool) -> str:
    if sooner:
        return "This offer no longer holds: the job would not start at once with it, though it would be over sooner."
    return "This offer no longer holds: planned again, the job would not be over sooner with it."


def _forget(job: Job) -> None:
    JobOffers.objects.filter(job_id=job.pk).update(at=None)
