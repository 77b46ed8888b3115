"""Leases of parts: what happens when they are over, and longer ones before a planned stop of the portal."""

from __future__ import annotations

from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from portal.jobs.models import Allocation
from portal.jobs.services.events import event_record
from portal.jobs.services.parts import part_lose


def leases_expire(*, grace_s: int) -> int:
    """End the parts whose lease and grace are over: their shims have killed them by then. Return how many.

    Each is a transaction of its own: one that fails keeps no other from ending.
    """
    limit = timezone.now() - timedelta(seconds=grace_s)
    over = Allocation.objects.filter(released_at=None, lease_until__lt=limit).select_related("node").order_by("pk")
    return sum(
        part_lose(part=part, detail=f"no word from {part.node.name} for its whole lease", lease_before=limit)
        for part in over
    )


@transaction.atomic
def leases_maintain(*, hours: float) -> int:
    """Extend the leases of everything that runs, before a planned stop of the portal. Return how many."""
    until = timezone.now() + timedelta(hours=hours)
    parts = Allocation.objects.filter(released_at=None, lease_until__isnull=False)
    for job_id in set(parts.values_list("attempt__job_id", flat=True)):
        event_record(job_id=job_id, kind="maintenance", text=f"Maintenance lease of {hours:g} h.")
    extended: int = parts.update(lease_until=until)
    return extended
