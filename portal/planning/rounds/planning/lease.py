"""Leases. That to plan: one row, taken and given back by conditional UPDATE, the same on SQLite and Postgres (invariant 6).

A lease is short, and renewed while its planner lives: a killed planner is replaced after LEASE_S, and a slow one keeps
its lease. One that has given no sign of life for long (`Renewal`) is not renewed: it hangs, or its machine sleeps.
A planner that lost the lease meanwhile applies nothing, for applying confirms it by holder and number.

Each background errand has a lease of its own, so that no two workers do one.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from types import TracebackType
from typing import NamedTuple, Self

from django.db import DatabaseError, connection
from django.db.models import F, QuerySet
from django.utils import timezone

from portal.foundation import leases
from portal.foundation.leases import lease_held
from portal.planning.rounds.models import ErrandLease, PlanningLease

log = logging.getLogger(__name__)

TRIES = 5
LEASE_S = 10.0
"""How long a planner that was killed keeps others out; also granted for applying."""
RENEWED_EVERY_S = 2.0
PAUSE_S = 0.25
"""Between the beginnings of two nudged plannings: nudges that come meanwhile are heeded by one."""
SILENCE_S = 60.0
"""Seconds beyond its time limit in which a planner that reads no clock and ends no step does not yet count as hung."""


def lease_take(*, holder: str) -> int | None:
    """Take the lease and return the planning's number, or leave word that another planning is due and return None."""
    PlanningLease.objects.get_or_create(pk=1)
    for _ in range(TRIES):
        now = timezone.now()
        row = PlanningLease.objects.filter(pk=1)
        if leases.lease_take(row, holder=holder, limit_s=LEASE_S, number=F("number") + 1):
            return PlanningLease.objects.values_list("number", flat=True).get(pk=1, holder=holder)
        # Word is left with a holder only: one that has just gone would never read it.
        if row.filter(until__gte=now).update(again=True):
            return None
    return None


class Begun(NamedTuple):
    """`at`: when the snapshot is taken; `thorough_at`: when the last planning began that had its whole time limit."""

    at: datetime
    thorough_at: datetime | None


def lease_begin(*, holder: str, number: int, pauses: bool) -> Begun:
    """Begin to plan: all that was committed by now is read, so word left until now is heeded.

    One that `pauses` waits until PAUSE_S have passed since the last one began. It waits as the holder, so that others who
    are nudged meanwhile leave word and go.
    """
    row = PlanningLease.objects.values("snapshot_at", "thorough_at").get(pk=1)
    if pauses and row["snapshot_at"] is not None:
        since_s = (timezone.now() - row["snapshot_at"]).total_seconds()
        if 0 <= since_s < PAUSE_S:
            time.sleep(PAUSE_S - since_s)
    now = timezone.now()
    leases.lease_keep(_held(holder, number), limit_s=LEASE_S, snapshot_at=now, again=False)
    return Begun(now, row["thorough_at"])


def lease_thorough(*, holder: str, number: int, at: datetime) -> None:
    """Note that this planning has its whole time limit."""
    _held(holder, number).update(thorough_at=at)


def lease_confirm(*, holder: str, number: int) -> bool:
    """Extend the lease if it is still ours, within the applying transaction: its row lock keeps others out."""
    return leases.lease_keep(_held(holder, number), limit_s=LEASE_S)


def lease_release(*, holder: str, number: int) -> bool:
    """Give the lease back; return whether a nudge came meanwhile."""
    mine = _held(holder, number)
    # Two conditional updates, not a look and an update: word left between the two would be wiped out.
    if leases.lease_give(mine.filter(again=False)):
        return False
    return leases.lease_give(mine, again=False)


def planned_since(moment: datetime) -> bool:
    """Say whether a planning has read the database after `moment`: a nudge from then has been heeded.

    One that is yet to come by this clock, which was set back since, says nothing of it.
    """
    return PlanningLease.objects.filter(pk=1, snapshot_at__gt=moment, snapshot_at__lte=timezone.now()).exists()


def _held(holder: str, number: int) -> QuerySet[PlanningLease]:
    return PlanningLease.objects.filter(pk=1, holder=holder, number=number)


class Renewal:
    """Renews a lease from a thread of its own for as long as its planner gives signs of life; stop it before applying.

    `clock` is handed to the scheduler: each reading of it is a sign. The solver reads none for its whole time limit.
    """

    def __init__(self, *, holder: str, number: int, limit_s: float) -> None:
        self._holder, self._number, self._silence_s = holder, number, limit_s + SILENCE_S
        self._signed_s, self._over = time.monotonic(), threading.Event()
        self._thread = threading.Thread(target=self._renew, name="planning-lease", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def clock(self) -> float:
        """Return the monotonic clock's seconds."""
        self._signed_s = time.monotonic()
        return self._signed_s

    def stop(self) -> None:
        """Renew no more; stopping again changes nothing."""
        self._over.set()
        self._thread.join()

    def _renew(self) -> None:
        try:
            while not self._over.wait(RENEWED_EVERY_S):
                silent_s = time.monotonic() - self._signed_s
                if silent_s > self._silence_s:
                    log.error("planning %s gave no sign of life for %.0f s: others may plan", self._number, silent_s)
                    return
                try:
                    if not lease_confirm(holder=self._holder, number=self._number):
                        return
                except DatabaseError as error:  # the next try may succeed before the lease is over
                    log.warning("planning %s: its lease was not renewed: %s", self._number, error)
        finally:
            connection.close()


def idle_count(gpus: int | None, *, number: int) -> None:
    """Count the GPUs that an applied planning left idle beside a job that fitted (invariant 11): none without a fault."""
    if gpus:
        log.warning("planning %s left %s idle GPUs beside a waiting job that fits them", number, gpus)
        PlanningLease.objects.filter(pk=1).update(idle_beside_fitting=F("idle_beside_fitting") + gpus)


def idle_counted() -> int:
    """Return the sum over all plannings."""
    return PlanningLease.objects.filter(pk=1).values_list("idle_beside_fitting", flat=True).first() or 0


REST_MOST_S = 900.0
"""No rest is longer: a later moment was written before the clock was set back."""


def errand(name: str, *, limit_s: float) -> AbstractContextManager[bool]:
    """Hold the errand's lease; the context is False, and nothing is to be done, while another holds it.

    A killed holder is replaced after `limit_s`.
    """
    ErrandLease.objects.get_or_create(name=name)
    return lease_held(ErrandLease.objects.filter(name=name), limit_s=limit_s, longest_s=REST_MOST_S)


def errand_rest(name: str, *, rest_s: float) -> None:
    """Keep everybody from the errand for this time (REST_MOST_S at most), unless somebody has begun it anew."""
    until = timezone.now() + timedelta(seconds=min(rest_s, REST_MOST_S))
    ErrandLease.objects.filter(name=name, until=None).update(until=until)
