"""Who plans now: one row, taken and given back by conditional UPDATE, the same on SQLite and Postgres (invariant 6)."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import F, Q
from django.utils import timezone

from portal.rounds.models import PlanningLease

TRIES = 5
MARGIN_S = 8.0
"""Granted beyond the planning's own time limit, for loading and applying; a killed planner is replaced after it."""


def lease_take(*, holder: str, limit_s: float) -> int | None:
    """Take the lease and return the planning's number, or leave word that another planning is due and return None."""
    PlanningLease.objects.get_or_create(pk=1)
    for _ in range(TRIES):
        now = timezone.now()
        free = Q(until=None) | Q(until__lt=now)
        taken = PlanningLease.objects.filter(free, pk=1).update(
            holder=holder,
            until=now + timedelta(seconds=limit_s + MARGIN_S),
            number=F("number") + 1,
            snapshot_at=now,
            again=False,
        )
        if taken:
            return PlanningLease.objects.values_list("number", flat=True).get(pk=1, holder=holder)
        # Word is left with a holder only: one that has just gone would never read it.
        if PlanningLease.objects.filter(pk=1, until__gte=now).update(again=True):
            return None
    return None


def lease_confirm(*, holder: str, number: int) -> bool:
    """Extend the lease if it is still ours, within the applying transaction: its row lock keeps others out."""
    until = timezone.now() + timedelta(seconds=MARGIN_S)
    return bool(PlanningLease.objects.filter(pk=1, holder=holder, number=number).update(until=until))


def lease_release(*, holder: str, number: int) -> bool:
    """Give the lease back; return whether a nudge came meanwhile."""
    mine = PlanningLease.objects.filter(pk=1, holder=holder, number=number)
    # Two conditional updates, not a look and an update: word left between the two would be wiped out.
    if mine.filter(again=False).update(holder="", until=None):
        return False
    return bool(mine.update(holder="", until=None, again=False))


def planned_since(moment: datetime) -> bool:
    """Say whether a planning has read the database after `moment`: a nudge from then has been heeded."""
    return PlanningLease.objects.filter(pk=1, snapshot_at__gt=moment).exists()
