"""The shadow beside the policy that acts, compared over a time. For operators: jobs of all tenants are in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Avg, Count, FloatField, Max, Q, QuerySet, Sum
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.db.models.functions import Cast, Coalesce

from portal.planning.estimation.models import AttemptSpeed
from portal.planning.estimation.selectors import pairs_measured
from portal.planning.sharing.models import ShadowDecision, ShadowPlanning
from portal.work.jobs.models import Allocation, GpuAllocation

RANGES: Mapping[str, timedelta] = {"24h": timedelta(hours=24), "7d": timedelta(days=7), "30d": timedelta(days=30)}
SIDES = ("acting", "shadow")
USES = ("use", "alone", "taken")
LOOKED_AT = 5000
"""The number of last admissions whose measured slowdown is looked up."""
REASONS = 12
"""The most rules of refusals that are shown: there are hardly more."""


@dataclass(frozen=True, slots=True)
class Pair:
    """The acting policy and its shadow: figures of different ones are never added up."""

    acting: str
    shadow: str


def pair_last() -> Pair | None:
    """Return the policies of the last comparison; None: there is none."""
    found = ShadowPlanning.objects.order_by("-number").values_list("acting", "shadow").first()
    return Pair(*found) if found else None


def decisions_of(pair: Pair, *, since: datetime, only: str = "") -> QuerySet[ShadowDecision]:
    """Return both decisions on jobs, the last first. `only`: `refused` by the acting one, or where they `differ`."""
    rows = ShadowDecision.objects.filter(
        planning__acting=pair.acting, planning__shadow=pair.shadow, at__gte=since
    ).order_by("-pk")
    if only == "refused":
        return rows.filter(acting_admits=False)
    if only == "differ":
        return rows.filter(Q(acting_admits=True, shadow_admits=False) | Q(acting_admits=False, shadow_admits=True))
    return rows


def comparison(pair: Pair, *, since: datetime) -> dict[str, Any]:
    """Return the figures of both policies since then. A shadow's slowdowns and use follow from measurements of others."""
    rows, plannings = decisions_of(pair, since=since).order_by(), _plannings(pair, since)
    counts = {
        (one, other): number
        for one, other, number in rows.values_list("acting_admits", "shadow_admits").annotate(number=Count("pk"))
    }
    asked = sum(counts.values())
    agreed = counts.get((True, True), 0) + counts.get((False, False), 0)
    told = plannings.aggregate(
        plannings=Count("pk"),
        wrong=Count("pk", filter=~Q(error="")),
        missed=Coalesce(Sum("skipped"), 0),
        beyond=Coalesce(Sum("left_out"), 0),
        mean_ms=Avg("spent_ms", filter=Q(error="")),
        most_ms=Max("spent_ms", filter=Q(error="")),
    )
    failed = plannings.exclude(error="").order_by("-number").values("number", "at", "error")
    return {
        "asked": asked,
        "agreed": agreed,
        "differed": asked - agreed,
        "both_admit": counts.get((True, True), 0),
        "both_refuse": counts.get((False, False), 0),
        "acting_alone": counts.get((True, False), 0),
        "shadow_alone": counts.get((False, True), 0),
        "plannings": told["plannings"],
        "failed": told["wrong"],
        "skipped": told["missed"],
        "left_out": told["beyond"],
        "spent_ms": told["mean_ms"],
        "most_ms": told["most_ms"],
        "last_error": failed.first(),
        "policies": [_policy(side, pair, rows, plannings, since) for side in SIDES],
    }


def _plannings(pair: Pair, since: datetime) -> QuerySet[ShadowPlanning]:
    return ShadowPlanning.objects.filter(acting=pair.acting, shadow=pair.shadow, at__gte=since).order_by()


def _policy(
    side: str, pair: Pair, rows: QuerySet[ShadowDecision], plannings: QuerySet[ShadowPlanning], since: datetime
) -> dict[str, Any]:
    admits, slowdown = f"{side}_admits", f"{side}_slowdown"
    told = rows.aggregate(
        admits=Count("pk", filter=Q(**{admits: True})),
        refuses=Count("pk", filter=Q(**{admits: False})),
        mean=Avg(slowdown, filter=Q(**{admits: True})),
        worst=Max(slowdown, filter=Q(**{admits: True})),
    )
    refused = rows.filter(**{admits: False}).values_list(f"{side}_rule").annotate(number=Count("pk"))
    means = {
        f"mean_{name}": Avg(Cast(KeyTextTransform(name, KeyTransform(side, "use")), FloatField())) for name in USES
    }
    use = plannings.filter(error="").aggregate(**means)
    measured = _measured_since(rows) if side == "acting" else {"measured_mean": None, "measured_worst": None}
    return {
        "side": side,
        "policy": getattr(pair, side),
        **told,
        "reasons": dict(refused.order_by("-number")[:REASONS]),
        **measured,
        **{name: use[f"mean_{name}"] for name in USES},
        "out_of_memory": out_of_memory(since=since) if side == "acting" else None,
    }


def _measured_since(rows: QuerySet[ShadowDecision]) -> dict[str, float | None]:
    """Measurements of the pairs that the acting policy made, after it made them."""
    admitted = rows.filter(acting_admits=True).exclude(acting__beside=[]).order_by("-pk")[:LOOKED_AT]
    found = [each for each in slowdowns_since(admitted).values() if each is not None]
    return {
        "measured_mean": round(sum(found) / len(found), 3) if found else None,
        "measured_worst": max(found, default=None),
    }


def slowdowns_since(rows: Iterable[ShadowDecision]) -> dict[int, float | None]:
    """Return by decision's id the worst slowdown measured, since the acting policy made it, of its pairs. One query."""
    rows = [row for row in rows if row.acting_admits]
    names = {row.signature for row in rows} | {name for row in rows for _, name in row.acting["beside"]}
    pairs = pairs_measured(names) if names else {}
    found: dict[int, float | None] = {}
    for row in rows:
        kind = row.acting["gpu_type"]
        keys = [
            key
            for _, name in row.acting["beside"]
            for key in ((row.signature, name, kind), (name, row.signature, kind))
        ]
        measured = [pairs[key] for key in keys if key in pairs]
        seen = [1.0 / cell.mean for cell, at in measured if cell.mean > 0 and at >= row.at]
        found[row.pk] = round(max(seen), 3) if seen else None
    return found


def out_of_memory(*, since: datetime) -> int:
    """Return how many parts were ended since then for GPU memory that they had asked for and were not granted."""
    ended = Allocation.objects.filter(end_reason="gpu_memory_limit", released_at__gte=since)
    held = GpuAllocation.objects.filter(allocation__in=ended.values("pk"), memory_mib__isnull=False)
    wanted = held.values_list("memory_mib", "allocation__attempt__job__gpu_memory_mib")
    return sum(asked is not None and granted < asked for granted, asked in wanted)


def answers_late(*, since: datetime) -> tuple[int, int] | None:
    """Return how many queries servers answered, and how many later than their target, of those that reported since then.

    Figures of at most `LOOKED_AT` attempts, from their beginnings; None: nobody reported queries.
    """
    rows = AttemptSpeed.objects.filter(at__gte=since).exclude(query_counts=[]).order_by("-at")
    told = list(rows.values_list("query_counts", "queries_late")[:LOOKED_AT])
    answered = sum(sum(counts) for counts, _ in told)
    return (answered, sum(late for _, late in told)) if answered else None


def use_course(pair: Pair, *, since: datetime, most: int = 240) -> list[dict[str, Any]]:
    """Return the use that was expected after plannings, thinned to this number of points, oldest first."""
    rows = _plannings(pair, since).filter(error="").order_by("number")
    count = rows.count()
    step = max(1, -(-count // most))
    numbers = list(rows.values_list("pk", flat=True)[::step])
    found = ShadowPlanning.objects.filter(pk__in=numbers).order_by("number").values_list("at", "use")
    return [{"at": at, **{side: use.get(side, {}) for side in SIDES}} for at, use in found]


def worse_of_two(names: set[str]) -> dict[tuple[str, frozenset[str]], float]:
    """Return by GPU type and two of these signatures the larger of both slowdowns. One query, or none."""
    found: dict[tuple[str, frozenset[str]], float] = {}
    for (own, beside, gpu_type), (cell, _) in (pairs_measured(names) if names else {}).items():
        if cell.mean > 0:
            key = gpu_type, frozenset((own, beside))
            found[key] = max(found.get(key, 1.0), 1.0 / cell.mean)
    return found
