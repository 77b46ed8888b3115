"""Profiles as attempts (algorithms.md, sections 2 and 7): their end, their limit when a node does not keep it, and the past.

A profile never touches its job's state, counters or checkpoint: it is a measurement made while the job waits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from portal.foundation.events.services import page_event, plan_nudge
from portal.work.jobs.models import Attempt
from portal.work.jobs.services.control import profiles_stop
from portal.work.jobs.services.events import event_record
from portal.work.jobs.services.locks import job_road_lock
from portal.work.jobs.states import AttemptState, StopReason, end_words

if TYPE_CHECKING:
    from collections.abc import Mapping

LATE_S = 5
"""A node ends a profile by itself; one that has not reported by then is asked to."""
NOTHING_SAID = frozenset({AttemptState.CANCELLED, AttemptState.NODE_FAIL})
"""Ends that were not the profile's own: it may be tried again at once."""


def profile_close(*, attempt: Attempt) -> None:
    """Record the end of a profile, and let the next planning place its job."""
    begun = attempt.started_at or attempt.created_at
    took_s = max(0.0, (attempt.ended_at - begun).total_seconds()) if attempt.ended_at else 0.0
    why = attempt.end_detail or ("" if attempt.exit_code == 0 else end_words(attempt.exit_code, attempt.signal))
    text = f"Profile on {attempt.profile_type or 'a GPU'} ended after {took_s:.0f} s: {attempt.get_state_display().lower()}"
    event_record(job_id=attempt.job_id, kind="profile-ended", text=f"{text}{', ' + why if why else ''}.")
    page_event(stream="cluster", topic="job")
    page_event(stream=f"job:{attempt.job_id}", topic="job", id=attempt.job_id)
    plan_nudge()


def profiles_end_late() -> int:
    """Ask the nodes to stop profiles whose time is over; return how many."""
    now, count = timezone.now(), 0
    for attempt in Attempt.objects.profiles().live().filter(stop_reason=""):
        if attempt.created_at + timedelta(seconds=(attempt.time_limit_s or 0) + LATE_S) > now:
            continue
        with transaction.atomic():
            job_road_lock(attempt.job_id)
            count += profiles_stop(profiles=[attempt], reason=StopReason.LIMIT)
    return count


@dataclass(frozen=True)
class ProfilePast:
    """When each job's first profile began, and the (signature, GPU type) pairs that were tried lately or run now."""

    since: Mapping[int, datetime] = field(default_factory=dict)
    tried: frozenset[tuple[str, str]] = frozenset()


def profiles_past(*, now: datetime, again_s: float) -> ProfilePast:
    """Return the profiles of the last `again_s` seconds and those that run. One query."""
    recent = Q(created_at__gt=now - timedelta(seconds=again_s)) | Q(ended_at=None)
    rows = Attempt.objects.profiles().filter(recent).order_by("created_at")
    since: dict[int, datetime] = {}
    tried = set()
    for job_id, signature, gpu_type, state, at in rows.values_list(
        "job_id", "profile_of", "profile_type__name", "state", "created_at"
    ):
        since.setdefault(job_id, at)
        if gpu_type is not None and state not in NOTHING_SAID:
            tried.add((signature, gpu_type))
    return ProfilePast(since, frozenset(tried))
