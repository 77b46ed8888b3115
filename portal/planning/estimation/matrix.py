"""The measured pairs of neighbours as operators see them: a matrix of names, and rows of figures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import Max, Sum

from portal.cluster.models import GpuType
from portal.people.tenants.models import Tenant
from portal.planning.estimation.models import PairSpeed

SHOWN = 30
"""The most names in a matrix: those with the most records."""
FINE, BAD = 0.9, 0.7
"""A neighbour costs little from the first share of a job's own speed, and much below the second."""


@dataclass(frozen=True)
class Cell:
    """The share of its speed that one name kept beside another. `kind`: fine, some or bad."""

    share: float
    count: int
    kind: str


@dataclass(frozen=True)
class Matrix:
    """One GPU type's pairs: a row for whose speed it is, a column for beside whom; None: not measured. `left_out`: names."""

    gpu_type: str
    names: list[str]
    rows: list[tuple[str, list[Cell | None]]]
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
    cells = {(own, beside): Cell(mean, count, _kind(mean)) for own, beside, mean, count in found}
    rows = [(words[own], [cells.get((own, beside)) for beside in chosen]) for own in chosen]
    own_names, beside_names = (set(pairs.values_list(f, flat=True).distinct()) for f in ("signature__name", "beside"))
    left_out = len(own_names | beside_names) - len(chosen)
    return Matrix(gpu_type.name, [words[name] for name in chosen], rows, left_out)


def _kind(share: float) -> str:
    return "fine" if share >= FINE else "bad" if share < BAD else "some"


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
