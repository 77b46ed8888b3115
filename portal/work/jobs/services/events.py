"""A job's history: its events with their actors. Followers beside it hear of them too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils import timezone

from portal.cluster.models import Gpu
from portal.foundation.bulk import among, rows_insert
from portal.foundation.events.services import jobs_tell
from portal.work.jobs.models import GpuAllocation, JobEvent

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from portal.people.tenants.models import User
    from portal.work.jobs.models import Attempt


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


def neighbours_tell(*, attempts: Iterable[Attempt]) -> None:
    """Tell the pages of those who share a GPU with these attempts, which came or are about to leave.

    Nothing happens to those jobs themselves, so nothing else tells their pages. Two queries, or none.
    """
    came = [attempt.pk for attempt in attempts if attempt.gpu_compute is not None]
    if not came:
        return
    live = GpuAllocation.objects.filter(released_at=None, mode=Gpu.Mode.SHARED)
    theirs = live.filter(allocation__attempt__in=among(came)).values("gpu")
    beside = (
        live.filter(gpu__in=theirs).exclude(allocation__attempt__in=among(came)).order_by("allocation__attempt__job")
    )
    jobs_tell(job_ids=list(beside.values_list("allocation__attempt__job", flat=True).distinct()))
