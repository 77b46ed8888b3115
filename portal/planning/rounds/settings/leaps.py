"""When the clock leapt ahead: for a day nothing is deleted for its age, which a wrong clock makes of all there is.

A clock that was set differs from time that passed by the time since boot; from a time in which Berth did not run it cannot be,
so after that, too, deleting waits. An operator sets a wrong clock back within the day, and nothing is lost (decision 0238).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from portal.work.jobs.models import ClockMark
from portal.work.jobs.services.reconciling import LEAP

WAIT = timedelta(days=1)
"""The time that an operator has to notice. It runs by the clock as it goes on from there."""
TOLD = timedelta(days=7)
"""A Berth that did not run for less is no news to its operator."""


@dataclass(frozen=True)
class Leap:
    """The clock went ahead by this much, and deleting waits until then."""

    by: timedelta
    until: datetime


def leap_now() -> Leap | None:
    """Return the leap for which deleting waits. One that lies ahead was noted by a clock that was wrong."""
    now, marks = timezone.now(), list(ClockMark.objects.values_list("looked_at", "leapt_at", "leapt_s"))
    if noted := [(at, seconds) for _, at, seconds in marks if at and seconds and now - WAIT < at <= now]:
        at, seconds = max(noted)
        return Leap(timedelta(seconds=seconds), at + WAIT)
    looked = max((at for at, *_ in marks if at), default=now)
    if now - looked >= LEAP:  # nobody has looked since, so it was not noted yet
        return Leap(now - looked, now + WAIT)
    return None


def leap_problems(_now: datetime) -> list[str]:
    """Return what to tell the operator: a sentence while deleting waits for a leap of a week or more."""
    leap = leap_now()
    if leap is None or leap.by < TOLD:
        return []
    said = f"it went ahead by {round(leap.by / LEAP)} days, or Berth did not run for so long"
    until = f"{leap.until:%Y-%m-%d %H:%M} UTC"
    return [f"clock: {said}; nothing is deleted for its age before {until}, so set it back before then if it is wrong"]
