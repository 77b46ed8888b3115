"""Jobs that share a GPU: pairs that are kept apart after a lack of memory (Kube-Knots IV-C), and lowered grants
(algorithms.md section 11).
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from django.db.models import Q

from portal.cluster.models import Gpu
from portal.work.jobs.models import GpuAllocation, JobApart
from portal.work.jobs.states import FINAL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from portal.work.jobs.models import Attempt, Job


Beside = tuple[int, int, str]
"""A job that another is kept apart from: its id, its tenant's and its model."""
MOST = 16
"""The most that are marked of one end: the last that came."""


def apart_note(*, job: Job, attempt: Attempt) -> int:
    """Mark who was on the GPU when the attempt was ended for memory there; return how many that were."""
    own = list(
        GpuAllocation.objects.filter(allocation__attempt=attempt, mode="shared").values_list("gpu_id", flat=True)
    )
    there = Q(released_at=None) | Q(released_at__gte=attempt.ended_at)
    rows = GpuAllocation.objects.filter(there, gpu_id__in=own, mode="shared", created_at__lt=attempt.ended_at)
    others = rows.exclude(allocation__attempt__job=job).order_by("-created_at")
    beside = list(dict.fromkeys(others.values_list("allocation__attempt__job_id", flat=True)[:MOST]))
    marks = [JobApart(job=job, beside_id=other, at=attempt.ended_at) for other in beside]
    JobApart.objects.bulk_create(marks, ignore_conflicts=True)
    return len(marks)


def apart_load() -> dict[int, tuple[Beside, ...]]:
    """Return the jobs that each unfinished job is kept apart from. One query."""
    found: dict[int, list[Beside]] = defaultdict(list)
    rows = JobApart.objects.exclude(job__state__in=FINAL).order_by("pk")
    for job, *beside in rows.values_list("job_id", "beside_id", "beside__tenant_id", "beside__model"):
        found[job].append((beside[0], beside[1], beside[2]))
    return {job: tuple(each) for job, each in found.items()}


def grants_lower(grants: Mapping[int, int]) -> list[tuple[int, int, str]]:
    """Lower what running jobs hold to these MiB, by job id. Their nodes are locked. One query, and one for each job.

    A job that ended meanwhile, or holds no more than that, stays as it is. Returns texts for histories: job, epoch and text.
    """
    if not grants:
        return []
    live = GpuAllocation.objects.filter(
        allocation__attempt__job__in=list(grants), released_at=None, mode=Gpu.Mode.SHARED, memory_mib__isnull=False
    ).select_related("allocation__attempt")
    lowered = [row for row in live if row.memory_mib > grants[row.allocation.attempt.job_id]]
    texts = []
    for row in lowered:
        attempt = row.allocation.attempt
        mib = grants[attempt.job_id]
        GpuAllocation.objects.filter(pk=row.pk).update(memory_mib=mib)
        now, before = (f"{held / 1024:.4g} GiB" for held in (mib, row.memory_mib))
        text = f"It holds {now} of GPU memory now, before {before}: it used no more, and another job needed the rest."
        texts.append((attempt.job_id, attempt.epoch, text))
    return texts
