"""Pairs that are kept apart: a job was ended for GPU memory beside another (Kube-Knots IV-C; algorithms.md section 11)."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from django.db.models import Q

from portal.work.jobs.models import GpuAllocation, JobApart
from portal.work.jobs.states import FINAL

if TYPE_CHECKING:
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
