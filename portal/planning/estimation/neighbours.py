"""Measure interference: how fast a job runs beside one other on its GPU, against its own speed there.

A record does not say when it was written, so it counts only where the neighbours were the same from before the last records
came until now. Alone on a shared GPU it counts for the speeds that all estimates read; beside one neighbour for the pair
of signatures; beside several, or where they changed, for neither. The planner corrects its guesses by the pairs and the
console shows them; no tenant reads another's.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.db.models import Q
from django.utils import timezone

from portal.planning.estimation.models import AttemptSpeed, PairSpeed, ThroughputCell
from portal.work.jobs.models import GpuAllocation
from scheduler.estimator.tables import signature_of
from scheduler.model.speeds import Cell

if TYPE_CHECKING:
    from portal.planning.estimation.runs import Run

SLACK = timedelta(seconds=15)
"""The time that records may be under way: they come with the next report, and wait for another if that fails."""
LEAST_ALONE = 3
"""The least records that make a speed to compare with."""
WHOLE = "exclusive"
Neighbours = frozenset[tuple[int, str]]
"""(attempt id, signature) of each."""


def records_window(run: Run, *, seconds: float, now: datetime) -> datetime:
    """Return when the oldest of the records that came now may have begun. `seconds`: their span. Before they are taken."""
    attempt = run.part.attempt
    last = AttemptSpeed.objects.filter(attempt=attempt).values_list("at", flat=True).first()
    begun = attempt.started_at or attempt.created_at
    oldest = min(last or begun, now - timedelta(seconds=seconds)) - SLACK
    return max(oldest, begun)


def neighbours_since(run: Run, *, since: datetime) -> Neighbours | None:
    """Return the sharers of the part's GPUs all the time since then: none where it had them for itself; None: they changed."""
    held = list(run.part.gpu_allocations.values_list("gpu_id", "mode"))
    if all(mode == WHOLE for _, mode in held):
        return frozenset()
    beside = GpuAllocation.objects.filter(gpu_id__in=[gpu for gpu, _ in held], mode="shared").exclude(
        allocation=run.part.pk
    )
    ended_at = run.part.attempt.ended_at or timezone.now()
    there = beside.filter(Q(released_at=None) | Q(released_at__gt=since), created_at__lt=ended_at)
    rows = there.select_related("allocation__attempt__job").order_by("pk")
    if any(row.created_at > since or (row.released_at and row.released_at < ended_at) for row in rows):
        return None
    attempts = [row.allocation.attempt for row in rows]
    return frozenset(
        (each.pk, signature_of(each.job.tenant_id, each.job.model or None, each.job_id)) for each in attempts
    )


def pair_note(run: Run, *, beside: str, rates: Sequence[float], now: datetime) -> None:
    """Compare rates (samples a second) measured beside one neighbour with the signature's own. Its row is locked."""
    alone = ThroughputCell.objects.filter(
        signature=run.signature, gpu_type=run.gpu_type_id, gpus=run.gpus, nodes=None, count__gte=LEAST_ALONE, mean__gt=0
    ).first()
    if alone is None or not rates:
        return
    key = {"signature": run.signature, "beside": beside, "gpu_type_id": run.gpu_type_id}
    row = PairSpeed.objects.filter(**key).first() or PairSpeed(**key)
    cell = Cell(row.count, row.mean, row.squares)
    for rate in rates:
        cell = cell.add(rate / alone.mean)
    row.count, row.mean, row.squares, row.at = cell.count, cell.mean, cell.squares, now
    row.save()
