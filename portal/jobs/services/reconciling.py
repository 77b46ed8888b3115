"""Every five seconds: whatever a lost message, a killed process or a silent node left undone is done here."""

from __future__ import annotations

from django.db import transaction

from portal.environment import env
from portal.events.relay import drain
from portal.jobs.models import Job
from portal.jobs.services.arrays import array_refresh
from portal.jobs.services.changes import job_move
from portal.jobs.services.parts import leases_expire
from portal.jobs.states import FINAL, JobState


def reconcile() -> dict[str, int]:
    """Run all repairs; return how much each found. Repeating it changes nothing."""
    return {
        "expired_leases": leases_expire(grace_s=env("BERTH_LEASE_GRACE_S")),
        "cancelled": _cancelled_end(),
        "arrays": _arrays_refresh(),
        "outbox": drain(),
    }


@transaction.atomic
def _cancelled_end() -> int:
    """End waiting jobs whose cancelling was asked for: one may have been requeued at the very moment."""
    asked = Job.objects.runnable().filter(state__in=[JobState.PENDING, JobState.HELD]).exclude(cancel_requested_at=None)
    ids = list(asked.values_list("pk", flat=True))
    for job_id in ids:
        job_move(job_id=job_id, to=JobState.CANCELLED, text="Cancelled.")
    return len(ids)


def _arrays_refresh() -> int:
    ids = list(Job.objects.filter(array_size__isnull=False).exclude(state__in=FINAL).values_list("pk", flat=True))
    for array_id in ids:
        array_refresh(array_id=array_id)
    return len(ids)
