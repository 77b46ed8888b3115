"""My tenant's share and quota: the GPUs that it holds now (mine apart), and its right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.models import Sum

from portal.pages.dashboard.parts.formatting import number, share
from portal.pages.dashboard.parts.waiting import near
from portal.people.tenants.models import Tenant
from portal.work.jobs.models import Attempt
from portal.work.jobs.use import GPU_MILLI, gpus_of

if TYPE_CHECKING:
    from portal.pages.dashboard.home.scope import Scope
    from portal.work.jobs.use import Use

CELLS = 40
"""Up to this number each GPU has a cell."""


def share_make(scope: Scope, *, gpus_total: int) -> dict[str, Any] | None:
    """Return the card of the scope's tenant; None without a tenant. Eight queries.

    On few GPUs a bar's `cells` name each GPU's holder; else `parts` of `total` are drawn.
    """
    tenant = scope.tenant
    if tenant is None:
        return None
    use = scope.use[tenant.pk]
    live = Attempt.objects.filter(ended_at=None, job__tenant=tenant, job__owner=scope.user)
    mine = gpus_of(live.aggregate(milli=Sum(GPU_MILLI))["milli"] or 0)
    bars = [_gpus(tenant, use, mine, gpus_total), _cluster(tenant, use, gpus_total)]
    bars += [
        _quota("CPU cores", use.cores, tenant.core_quota),
        _quota("jobs waiting", use.queued_jobs, tenant.queued_jobs_quota),
    ]
    rest = max(0.0, use.gpus - mine)
    return {
        "tenant": tenant.name,
        "bars": [bar for bar in bars if bar is not None],
        "legend": [("mine", f"you {_held(mine)}"), ("ours", f"others of {tenant.name} {_held(rest)}")],
    }


def _held(gpus: float) -> str:
    """13, 5.5, 0.25: parts of GPUs are shown, so that mine and the others' add up to the whole."""
    return number(gpus, next((digits for digits in (0, 1) if round(gpus, digits) == round(gpus, 2)), 2))


def _gpus(tenant: Tenant, use: Use, mine: float, gpus_total: int) -> dict[str, Any]:
    """GPUs that are held now, of the quota, or of the cluster's where there is none."""
    quota = tenant.gpu_quota
    total = quota if quota is not None else gpus_total
    whole = max(total, round(use.gpus))
    cells = ["mine"] * round(mine) + ["ours"] * (round(use.gpus) - round(mine))
    cells += ["left"] * (whole - len(cells))
    return {
        "value": f"{_held(use.gpus)} of {number(total)}",
        "label": "GPUs now" if quota is not None else "GPUs now, no quota",
        "end": f"{_held(max(0, total - use.gpus))} left" if quota is not None else "",
        "cells": cells if whole <= CELLS else [],
        "parts": [("mine", mine), ("ours", max(0.0, use.gpus - mine))],
        "total": max(1.0, float(whole)),
        "tick": None,
        "note": None,
        "near": near(use.gpus, quota),
    }


def _cluster(tenant: Tenant, use: Use, gpus_total: int) -> dict[str, Any] | None:
    """The part of the cluster that is held, and the part that its weight entitles it to."""
    if not gpus_total:
        return None
    weights = Tenant.objects.filter(is_active=True).aggregate(total=Sum("weight"))["total"] or tenant.weight
    held, entitled = use.gpus / gpus_total, tenant.weight / weights
    above = held > entitled
    return {
        "value": str(share(held)),
        "label": "of the cluster's GPUs",
        "end": f"entitled to {share(entitled)}",
        "cells": [],
        "parts": [("mine", held)],
        "total": 1.0,
        "tick": entitled,
        "note": "Above its share: others' jobs come first when both fit."
        if above
        else "Below its share: its jobs come first when both fit.",
        "near": False,
    }


def _quota(label: str, used: int, quota: int | None) -> dict[str, Any] | None:
    if not quota:
        return None
    return {
        "value": f"{number(used)} of {number(quota)}",
        "label": label,
        "end": f"{number(max(0, quota - used))} left",
        "cells": [],
        "parts": [("mine", float(used))],
        "total": float(max(quota, used)),
        "tick": None,
        "note": None,
        "near": near(used, quota),
    }
