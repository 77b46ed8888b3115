"""Running jobs hold less of a shared GPU's memory from now on: their unused rest is another's (algorithms.md section 11)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from portal.cluster.models import Gpu
from portal.work.jobs.models import GpuAllocation

if TYPE_CHECKING:
    from collections.abc import Mapping


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
