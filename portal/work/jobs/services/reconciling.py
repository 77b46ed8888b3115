"""Repairs every five seconds: does what a lost message, a killed process or a silent node left undone."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from portal.cluster.models import UNREACHABLE_AFTER_S
from portal.foundation.environment import env
from portal.foundation.events.relay import drain
from portal.work.jobs.models import Allocation, Job
from portal.work.jobs.services.changes import array_refresh, job_move
from portal.work.jobs.services.leases import leases_expire
from portal.work.jobs.services.locks import job_road_lock
from portal.work.jobs.services.parts import FORGOTTEN_S, each_apart, part_lose
from portal.work.jobs.services.profiling import profiles_end_late
from portal.work.jobs.states import FINAL, QUEUED, JobState

if TYPE_CHECKING:
    from collections.abc import Callable


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
