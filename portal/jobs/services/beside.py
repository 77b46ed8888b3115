"""Tell pages that the neighbours of a job on a shared GPU changed: nothing happens to the job itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from portal.bulk import among
from portal.cluster.models import Gpu
from portal.events.services import jobs_tell
from portal.jobs.models import GpuAllocation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from portal.jobs.models import Attempt


def neighbours_tell(*, attempts: Iterable[Attempt]) -> None:
    """Tell the pages of those who share a GPU with these attempts, which came or are about to leave. Two queries, or none."""
    came = [attempt.pk for attempt in attempts if attempt.gpu_compute is not None]
    if not came:
        return
    live = GpuAllocation.objects.filter(released_at=None, mode=Gpu.Mode.SHARED)
    theirs = live.filter(allocation__attempt__in=among(came)).values("gpu")
    beside = (
        live.filter(gpu__in=theirs).exclude(allocation__attempt__in=among(came)).order_by("allocation__attempt__job")
    )
    jobs_tell(job_ids=list(beside.values_list("allocation__attempt__job", flat=True).distinct()))
