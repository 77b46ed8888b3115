"""The jobs that wait longest, and those that hold GPUs without computing on them."""

from __future__ import annotations

from collections import defaultdict
from heapq import nsmallest
from typing import TYPE_CHECKING, Any

from django.urls import reverse

from portal.cluster.models import Gpu
from portal.foundation.bulk import among
from portal.pages.dashboard.parts.gpus import UNUSED_S
from portal.pages.dashboard.parts.plain import sizes, sizes_gpus
from portal.planning.rounds.read.forecasts import starts_of
from portal.planning.rounds.read.selectors import waited_s
from portal.work.jobs.models import GpuAllocation
from portal.work.jobs.queue_counts import first_in_order

if TYPE_CHECKING:
    from portal.pages.dashboard.parts.snapshot import Snapshot
    from portal.planning.rounds.read.forecasts import Start
    from portal.work.jobs.models import Job

SHOWN = 5
OLDEST_READ = 10
"""The jobs of the smallest numbers, of which the longest waits are shown: one that ran between may have waited less."""
GPUS_READ = 400


def asks_words(job: Job) -> str:
    """For example: 8 A100; 1 or 2 GPUs; no GPU."""
    if job.gpus == [0] or not job.gpu_types:
        return sizes_gpus(job.gpus)
    return f"{sizes(job.gpus)} {' or '.join(job.gpu_types)}"


def waits_make(snapshot: Snapshot) -> list[dict[str, Any]]:
    """Return the jobs that have waited longest for their turn, an array as one. Four queries."""
    oldest = sorted(first_in_order((), count=OLDEST_READ), key=lambda row: -waited_s(row[0]))[:SHOWN]
    starts = starts_of([job for job, _ in oldest], snapshot.now)
    return [_wait(job, count, starts.get(job.pk)) for job, count in oldest]


def _wait(job: Job, count: int, start: Start | None) -> dict[str, Any]:
    number = job.array_id if count > 1 else job.number
    known = start is not None and not start.passed
    return {
        "name": job.name + (f" \u00d7 {count}" if count > 1 else ""),
        "url": reverse("job-detail", args=[number]),
        "note": f"{job.tenant.name}, {asks_words(job)}",
        "waited_s": waited_s(job),
        "word": "starts about" if known and start and start.median_at else "starts after" if known else "start",
        "at": (start.median_at or start.earliest_at).isoformat() if known and start else None,
    }


def unused_make(snapshot: Snapshot) -> list[dict[str, Any]]:
    """Return the jobs that have not computed on any of their GPUs for `UNUSED_S`, the longest first. One query.

    A GPU that several jobs share is left out.
    """
    facts = snapshot.facts
    since = {
        gpu: at
        for gpu, at, held in zip(facts.gpu_ids, facts.unused, facts.held, strict=True)
        if held and at is not None
    }
    longest = nsmallest(
        GPUS_READ, (gpu for gpu, at in since.items() if facts.at - at >= UNUSED_S), key=lambda gpu: since[gpu]
    )
    rows = GpuAllocation.objects.filter(released_at=None, mode=Gpu.Mode.EXCLUSIVE, gpu__in=among(longest))
    own: dict[int, list[GpuAllocation]] = defaultdict(list)
    for row in rows.select_related("allocation__attempt__job__owner", "gpu__gpu_type", "gpu__node__gpu_type"):
        own[row.allocation.attempt_id].append(row)
    found = [_unused(held, max(since[row.gpu_id] for row in held), facts.at) for held in own.values()]
    return sorted((each for each in found if each), key=lambda each: -each["unused_s"])[:SHOWN]


def _unused(held: list[GpuAllocation], since_s: float, now_s: float) -> dict[str, Any] | None:
    attempt = held[0].allocation.attempt
    unused_s = now_s - max(since_s, attempt.created_at.timestamp())
    if len(held) < attempt.gpus or unused_s < UNUSED_S:
        return None
    types = sorted({name for row in held if (name := row.gpu.type_of(row.gpu.node))})
    job, has = attempt.job, f"{len(held)} {' and '.join(types) or 'GPU'}"
    return {
        "name": job.name,
        "number": job.number,
        "url": reverse("job-detail", args=[job.number]),
        "owner": job.owner.username,
        "has": has,
        "unused_s": unused_s,
    }
