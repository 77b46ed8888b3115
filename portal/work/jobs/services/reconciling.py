"""Repairs every five seconds: do what a lost message, a killed process or a silent node left undone.

Leases of parts: their end, a set clock, and longer ones before a planned stop of the portal.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from django.conf import settings
from django.db import transaction
from django.db.models import F, Max, Q
from django.db.models.functions import Greatest
from django.utils import timezone

from portal.cluster.models import UNREACHABLE_AFTER_S, Node
from portal.foundation.environment import env
from portal.foundation.events.relay import drain
from portal.foundation.layout import Layout, read_json
from portal.work.jobs.models import Allocation, ClockMark, Job
from portal.work.jobs.services.changes import array_refresh, job_move
from portal.work.jobs.services.events import event_record
from portal.work.jobs.services.locks import job_road_lock
from portal.work.jobs.services.parts import FORGOTTEN_S, each_apart, part_lose
from portal.work.jobs.services.profiling import profiles_end_late
from portal.work.jobs.states import FINAL, QUEUED, JobState

log = logging.getLogger(__name__)

RETURN_S = 120
"""The time that nodes have to report after the portal was away: it begins to answer, and their agents try every 10 s."""
AWAY_S = 30
"""Leases are looked at every 5 s. After a longer gap, the database or the worker was away, or both hung."""
NOTE_S = 10
SET_S = 5.0
"""A clock that moved by less against the time since boot was not set; a clock that is slewed moves both."""
FORGOTTEN = timedelta(days=400)
LEAP = timedelta(days=1)
"""Rows deleted for their age are kept for days: a clock that went ahead by less does no harm
(`portal.planning.rounds.settings.leaps`)."""
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def portal_since() -> datetime | None:
    """Return when `./berth up` last started the portal: before that it heard no node. None: another runs it."""
    children = (read_json(Layout.at(settings.DATA_DIR).state) or {}).get("children", {})
    since = children.get("portal", {}).get("since")
    return datetime.fromtimestamp(since, UTC) if since else None


def leases_expire(*, grace_s: int) -> int:
    """End the parts whose lease and grace are over: their shims have killed them by then. Return how many.

    A portal or database that was away heard nobody, which says nothing about nodes: each has a lease more to report from its
    return, but RETURN_S at most. A job may have ended well meanwhile. Each end is a transaction of its own: one that fails
    keeps no other from ending.
    """
    leases_follow_clock()
    now = timezone.now()
    limit = now - timedelta(seconds=grace_s)
    since = _heard_since(now)
    over = Allocation.objects.filter(released_at=None, lease_until__lt=limit).select_related("node", "attempt")
    lost = 0
    for part in over.order_by("pk"):
        if since is not None and since <= now < since + _to_return(part.attempt.lease_s):
            continue
        detail = f"no word from {part.node.name} for its whole lease"
        with each_apart(f"the loss of {part.node.name}'s part of attempt {part.attempt.key}"):
            lost += part_lose(part=part, detail=detail, lease_before=limit)
        now = timezone.now()
        since = _heard_since(now)  # many losses take long: that is no time away, but the database may hang among them
    return lost


def _heard_since(now: datetime) -> datetime | None:
    return max(filter(None, (portal_since(), _back_since(now))), default=None)


def _back_since(now: datetime) -> datetime | None:
    """Note that leases are looked at; return since when they are again after nobody had looked for AWAY_S. None: never so."""
    # Later looks were noted before the clock was set back.
    noted = ClockMark.objects.aggregate(
        latest=Max("looked_at", filter=Q(looked_at__lte=now)),
        mine=Max("looked_at", filter=Q(boot=boot_name(), looked_at__lte=now)),
        back=Max("returned_at", filter=Q(returned_at__lte=now)),
    )
    mine, back = ClockMark.objects.filter(boot=boot_name()), noted["back"]
    if noted["latest"] is not None and now - noted["latest"] > timedelta(seconds=AWAY_S):
        away_s = (now - noted["latest"]).total_seconds()
        log.warning("leases were not looked at for %.0f s: nodes have time to report", away_s)
        _leap_note(now - noted["latest"])
        back = now
        mine.update(looked_at=now, returned_at=now)
    elif noted["mine"] is None or now - noted["mine"] > timedelta(seconds=NOTE_S):  # else no lock is taken
        mine.update(looked_at=now)
    return back


def _to_return(lease_s: int | None) -> timedelta:
    return timedelta(seconds=min(lease_s or 0, RETURN_S))


def boot_name() -> str:
    """Return the name of this boot of this machine: containers of one machine may count the time since boot from elsewhere."""
    return f"{BOOT_ID.read_text().strip()} {socket.gethostname()}"[:128]


def leases_follow_clock() -> float:
    """Carry the leases along if this machine's clock was set since the last call; return by how many seconds, 0 else.

    Set forward, it says nothing about nodes: each has a lease more to report, RETURN_S at most. Set back, a node that is
    silent from now on is unreachable soon, and its jobs are missed after their leases, not when the clock has come there again.
    """
    booted_at = timezone.now() - timedelta(seconds=time.clock_gettime(time.CLOCK_BOOTTIME))
    before = ClockMark.objects.filter(boot=boot_name()).values_list("booted_at", flat=True).first()
    if before is None:
        latest = ClockMark.objects.filter(looked_at__lte=timezone.now()).aggregate(at=Max("looked_at"))["at"]
        ClockMark.objects.get_or_create(boot=boot_name(), defaults={"booted_at": booted_at})
        if latest is not None:
            _leap_note(timezone.now() - latest)
        ClockMark.objects.filter(booted_at__lt=booted_at - FORGOTTEN).delete()
        return 0.0
    by = booted_at - before
    if abs(by.total_seconds()) < SET_S:  # nothing is written then, and no lock taken
        return 0.0
    with transaction.atomic():
        # Of several that see it at once, one carries them.
        seen = ClockMark.objects.filter(boot=boot_name(), booted_at=before)
        if not seen.update(booted_at=booted_at, looked_at=F("looked_at") + by):
            return 0.0
        log.warning("this machine's clock was set by %+.0f s: the leases of what runs go along", by.total_seconds())
        Node.objects.filter(last_contact_at__gt=timezone.now()).update(last_contact_at=timezone.now())
        _leap_note(by)
        _leases_carry(by)
    return by.total_seconds()


def _leap_note(by: timedelta) -> None:
    """Note on this boot's mark that the clock is ahead by this much more than before. Negative: it was set back."""
    if by >= LEAP:
        log.warning("the clock went ahead by %s: nothing is deleted for its age for a day", by)
        ClockMark.objects.filter(boot=boot_name()).update(leapt_at=timezone.now(), leapt_s=by.total_seconds())
    elif by <= -LEAP:
        ClockMark.objects.filter(boot=boot_name()).update(leapt_at=None, leapt_s=None)


def _leases_carry(by: timedelta) -> None:
    live = Allocation.objects.filter(released_at=None, lease_until__isnull=False)
    for lease_s in set(live.values_list("attempt__lease_s", flat=True)):
        alike, now = live.filter(attempt__lease_s=lease_s), timezone.now()
        if by > timedelta(0):
            least = now + _to_return(lease_s)
            alike.filter(lease_until__lt=least).update(lease_until=least)
        else:  # a longer one (maintenance) keeps what is left of it
            most = now + timedelta(seconds=lease_s or 0)
            alike.filter(lease_until__gt=most).update(lease_until=Greatest(F("lease_until") + by, most))


@transaction.atomic
def leases_maintain(*, hours: float) -> int:
    """Extend the leases of everything that runs, before a planned stop of the portal. Return how many."""
    until = timezone.now() + timedelta(hours=hours)
    parts = Allocation.objects.filter(released_at=None, lease_until__isnull=False)
    for job_id in set(parts.values_list("attempt__job_id", flat=True)):
        event_record(job_id=job_id, kind="maintenance", text=f"Maintenance lease of {hours:g} h.")
    extended: int = parts.update(lease_until=until)
    return extended


def reconcile() -> dict[str, int]:
    """Run all repairs; return how much each found, without those that failed. Repeating it changes nothing."""
    repairs: dict[str, Callable[[], int]] = {
        "expired_leases": partial(leases_expire, grace_s=env("BERTH_LEASE_GRACE_S")),
        "silent_starts": partial(silent_starts_lose, limit_s=env("BERTH_START_LIMIT_S")),
        "cancelled": _cancelled_end,
        "late_profiles": profiles_end_late,
        "arrays": _arrays_refresh,
    }
    found = {}
    for name, repair in repairs.items():
        with each_apart(f"the repair {name}"):
            found[name] = repair()
    return found | {"outbox": drain()}


def silent_starts_lose(*, limit_s: int) -> int:
    """End the parts that their nodes, in contact, were to begin and have not named for `limit_s`; return how many.

    One that was asked to stop meanwhile has FORGOTTEN_S for an answer. A part that begins after all is asked to stop: a
    leased one asks before it starts, and a job without a lease is not run again, so nothing runs twice.
    """
    now = timezone.now()
    silent, asked = now - timedelta(seconds=limit_s), now - timedelta(seconds=FORGOTTEN_S)
    parts = Allocation.objects.filter(
        Q(missed_at__lt=silent) | Q(missed_at__lt=asked, attempt__stop_at__lt=asked),
        released_at=None,
        state=Allocation.State.WANTED,
        node__last_contact_at__gt=now - timedelta(seconds=UNREACHABLE_AFTER_S),
    )
    count = 0
    for part in parts.select_related("node").order_by("pk"):
        silence_s = (now - part.missed_at).total_seconds()
        detail = f"{part.node.name} is in contact, but has not said for {silence_s:.0f} s that it starts the job"
        with each_apart(f"the end of {part.node.name}'s silent start of attempt {part.attempt_id}"):
            count += part_lose(part=part, detail=detail, missed_before=now, only_in=Allocation.State.WANTED)
    return count


def _cancelled_end() -> int:
    """End waiting jobs that should be cancelled: one may have gone back to the queue just when it was cancelled."""
    asked = Job.objects.runnable().filter(state__in=QUEUED).exclude(cancel_requested_at=None)
    count = 0
    for job_id in asked.values_list("pk", flat=True):
        with each_apart(f"the cancelling of job {job_id}"), transaction.atomic():
            job_road_lock(job_id)
            count += job_move(job_id=job_id, to=JobState.CANCELLED, text="Cancelled.", only_from=QUEUED)
    return count


def _arrays_refresh() -> int:
    ids = list(Job.objects.filter(array_size__isnull=False).exclude(state__in=FINAL).values_list("pk", flat=True))
    for array_id in ids:
        with each_apart(f"the counts of array {array_id}"):
            array_refresh(array_id=array_id)
    return len(ids)
