"""Measure interference: how fast a job runs beside one other on its GPU, against its own speed there; and show it.

A record does not say when it was written, so it counts only where the neighbours were the same from before the last records
came until now. Alone on a shared GPU it counts for the speeds that all estimates read; beside one neighbour for the pair
of signatures; beside several, or where they changed, for neither. The planner corrects its guesses by the pairs. Operators see
them as a matrix of names, and as rows of figures; no tenant reads another's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.db.models import Max, Q, Sum
from django.utils import timezone

from portal.cluster.models import GpuType
from portal.people.tenants.models import Tenant
from portal.planning.estimation.models import AttemptSpeed, PairSpeed, ThroughputCell
from portal.work.jobs.models import GpuAllocation
from scheduler.estimator.measured import signature_of
from scheduler.model.speeds import Cell

if TYPE_CHECKING:
    from portal.planning.estimation.absorbing import Run


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


SHOWN = 30
"""The most names in a matrix: those with the most records."""
FINE, BAD = 0.9, 0.7
"""A neighbour costs little from the first share of a job's own speed, and much below the second."""


@dataclass(frozen=True)
class Share:
    """The share of its speed that one name kept beside another. `kind`: fine, some or bad."""

    share: float
    count: int
    kind: str


@dataclass(frozen=True)
class Matrix:
    """One GPU type's pairs: a row for whose speed it is, a column for beside whom; None: not measured. `left_out`: names."""

    gpu_type: str
    names: list[str]
    rows: list[tuple[str, list[Share | None]]]
    left_out: int


def signature_words(names: Iterable[str]) -> dict[str, str]:
    """Return signatures as people know them: `vision-lab / resnet`, or `job 17`. One query."""
    parts = {name: name.split(":", 2) for name in names}
    ids = {int(part[1]) for part in parts.values() if part[0] == "tenant" and part[1].isdigit()}
    tenants = dict(Tenant.objects.filter(pk__in=ids).values_list("pk", "name"))
    return {
        name: f"{tenants.get(int(part[1]), 'a tenant that is gone')} / {part[2]}"
        if part[0] == "tenant"
        else f"job {part[1]}"
        for name, part in parts.items()
    }


def matrices() -> list[Matrix]:
    """Return a matrix for each GPU type on which pairs were measured."""
    types = PairSpeed.objects.values_list("gpu_type", flat=True).distinct()
    return [_matrix(gpu_type) for gpu_type in GpuType.objects.filter(pk__in=types).order_by("name")]


def _matrix(gpu_type: GpuType) -> Matrix:
    pairs = PairSpeed.objects.filter(gpu_type=gpu_type)
    weight: dict[str, int] = {}
    for field in ("signature__name", "beside"):
        largest = pairs.values_list(field).annotate(records=Sum("count"), last=Max("at")).order_by("-records", field)
        for name, records, _ in largest[: SHOWN + 1]:
            weight[name] = weight.get(name, 0) + records
    chosen = sorted(weight, key=lambda name: (-weight[name], name))[:SHOWN]
    words = signature_words(chosen)
    chosen.sort(key=lambda name: words[name])
    found = pairs.filter(signature__name__in=chosen, beside__in=chosen).values_list(
        "signature__name", "beside", "mean", "count"
    )
    cells = {
        (own, beside): Share(mean, count, "fine" if mean >= FINE else "bad" if mean < BAD else "some")
        for own, beside, mean, count in found
    }
    rows = [(words[own], [cells.get((own, beside)) for beside in chosen]) for own in chosen]
    own_names, beside_names = (set(pairs.values_list(f, flat=True).distinct()) for f in ("signature__name", "beside"))
    left_out = len(own_names | beside_names) - len(chosen)
    return Matrix(gpu_type.name, [words[name] for name in chosen], rows, left_out)


def pairs_told(rows: Iterable[PairSpeed]) -> list[dict[str, Any]]:
    """Return rows for REST, with names as people know them."""
    rows = list(rows)
    words = signature_words({name for row in rows for name in (row.signature.name, row.beside)})
    return [
        {
            "job": words[row.signature.name],
            "beside": words[row.beside],
            "gpu_type": row.gpu_type.name,
            "speed_kept": round(row.mean, 4),
            "deviation": round((row.squares / row.count) ** 0.5, 4) if row.count else 0.0,
            "records": row.count,
            "at": row.at,
        }
        for row in rows
    ]
