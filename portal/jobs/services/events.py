"""A job's history: what happened to it, and who did it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils import timezone

from portal.bulk import rows_insert
from portal.jobs.models import JobEvent

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from portal.tenants.models import User


def event_record(
    *,
    job_id: int,
    kind: str,
    text: str,
    epoch: int | None = None,
    actor: User | None = None,
    at: datetime | None = None,
) -> None:
    JobEvent.objects.create(
        job_id=job_id,
        at=at or timezone.now(),
        kind=kind,
        epoch=epoch,
        text=text[:300],
        actor_name=actor.username if actor else "",
    )


def events_record(*, kind: str, texts: Iterable[tuple[int, int | None, str]]) -> None:
    """Record an event of this kind for each (job, epoch, text). One query."""
    now = timezone.now()
    rows = [(job_id, now, kind, epoch, text[:300]) for job_id, epoch, text in texts]
    rows_insert(model=JobEvent, fields=["job", "at", "kind", "epoch", "text"], rows=rows)
