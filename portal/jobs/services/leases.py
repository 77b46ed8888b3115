"""Leases of parts: what happens when they are over, and longer ones before a planned stop of the portal."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from portal.jobs.models import Allocation
from portal.jobs.services.events import event_record
from portal.jobs.services.parts import part_lose
from portal.layout import Layout, read_json

RETURN_S = 120
"""So long have nodes to report after the portal was away: it begins to answer, and their agents try every 10 s."""


def portal_since() -> datetime | None:
    """Return when `./berth up` last started the portal: before that it heard no node. None: another runs it."""
    children = (read_json(Layout.at(settings.DATA_DIR).state) or {}).get("children", {})
    since = children.get("portal", {}).get("since")
    return datetime.fromtimestamp(since, UTC) if since else None


def leases_expire(*, grace_s: int) -> int:
    """End the parts whose lease and grace are over: their shims have killed them by then. Return how many.

    A portal that was away heard nobody, which says nothing about nodes: each has a lease more to report from its start, but
    RETURN_S at most. A job may have ended well meanwhile. Each end is a transaction of its own: one that fails keeps no
    other from ending.
    """
    now = timezone.now()
    limit = now - timedelta(seconds=grace_s)
    since = portal_since()
    over = Allocation.objects.filter(released_at=None, lease_until__lt=limit).select_related("node", "attempt")
    lost = 0
    for part in over.order_by("pk"):
        if since is not None and now < since + timedelta(seconds=min(part.attempt.lease_s or 0, RETURN_S)):
            continue
        detail = f"no word from {part.node.name} for its whole lease"
        lost += part_lose(part=part, detail=detail, lease_before=limit)
    return lost


@transaction.atomic
def leases_maintain(*, hours: float) -> int:
    """Extend the leases of everything that runs, before a planned stop of the portal. Return how many."""
    until = timezone.now() + timedelta(hours=hours)
    parts = Allocation.objects.filter(released_at=None, lease_until__isnull=False)
    for job_id in set(parts.values_list("attempt__job_id", flat=True)):
        event_record(job_id=job_id, kind="maintenance", text=f"Maintenance lease of {hours:g} h.")
    extended: int = parts.update(lease_until=until)
    return extended
