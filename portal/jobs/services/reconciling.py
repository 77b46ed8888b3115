"""Repairs every five seconds: does what a lost message, a killed process or a silent node left undone."""

from __future__ import annotations

from django.db import transaction

from portal.environment import env
from portal.events.relay import drain
from portal.jobs.models import Job
from portal.jobs.services.changes import array_refresh, job_move
from portal.jobs.services.leases import leases_expire
from portal.jobs.services.locks import job_road_lock
from portal.jobs.services.parts import silent_starts_lose
from portal.jobs.services.profiling import profiles_end_late
from portal.jobs.states import FINAL, QUEUED, JobState


def reconcile() -> dict[str, int]:
    """Run all repairs; return how much each found. Repeating it changes nothing."""
    return {
        "expired_leases": leases_expire(grace_s=env("BERTH_LEASE_GRACE_S")),
        "silent_starts": silent_starts_lose(limit_s=env("BERTH_START_LIMIT_S")),
        "cancelled": _cancelled_end(),
        "late_profiles": profiles_end_late(),
        "arrays": _arrays_refresh(),
        "outbox": drain(),
    }


def _cancelled_end() -> int:
    """End waiting jobs that should be cancelled: one may have gone back to the queue just when it was cancelled."""
    asked = Job.objects.runnable().filter(state__in=QUEUED).exclude(cancel_requested_at=None)
    count = 0
    for job_id in asked.values_list("pk", flat=True):
        with transaction.atomic():
            job_road_lock(job_id)
            count += job_move(job_id=job_id, to=JobState.CANCELLED, text="Cancelled.", only_from=QUEUED)
    return count


def _arrays_refresh() -> int:
    ids = list(Job.objects.filter(array_size__isnull=False).exclude(state__in=FINAL).values_list("pk", flat=True))
    for array_id in ids:
        array_refresh(array_id=array_id)
    return len(ids)
