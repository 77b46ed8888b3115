"""The page of a tenant's usage: GPU time by person in a stretch of time, and its idle part."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone

from portal.foundation.errors import BerthError
from portal.people.tenants.selectors import tenant_find, zone_of
from portal.work.jobs.use import Usage, UsageRow, usage_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.http import HttpRequest, HttpResponse

Span = tuple[datetime, datetime]


def _first(at: datetime) -> datetime:
    """Return when the month of a moment begins, in the moment's zone."""
    return at.replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def _before(now: datetime) -> Span:
    until = _first(now)
    return _first(until - timedelta(days=1)), until


STRETCHES: dict[str, tuple[str, Callable[[datetime], Span]]] = {
    "7d": ("7 days", lambda now: (now - timedelta(days=7), now)),
    "30d": ("30 days", lambda now: (now - timedelta(days=30), now)),
    "month": ("This month", lambda now: (_first(now), now)),
    "before": ("Last month", _before),
}


def tenant_usage(request: HttpRequest, name: str) -> HttpResponse:
    tenant = tenant_find(user=request.user, name=name)
    chosen = request.GET.get("range", "30d")
    if chosen not in STRETCHES:
        raise BerthError("invalid", f"`range` must be one of {', '.join(STRETCHES)}.", field="range")
    since, until = STRETCHES[chosen][1](timezone.now().astimezone(zone_of(request.user)))
    usage = usage_of(tenant, since=since, until=until)
    ends = {"since": since.isoformat(), "until": until.isoformat()}
    context = {
        "tenant": tenant,
        "ranges": [
            {"label": label, "url": f"?range={key}", "selected": key == chosen} for key, (label, _) in STRETCHES.items()
        ],
        "since": usage.since.isoformat(),
        "until": usage.until.isoformat(),
        "rows": [_row(row) for row in usage.rows],
        "tiles": _tiles(usage),
        "csv_url": f"{reverse('api-usage', args=[tenant.name])}?{urlencode(ends | {'format': 'csv'})}",
    }
    return render(request, "people/usage.html", context)


def _row(row: UsageRow) -> dict[str, Any]:
    return {
        "user": row.user,
        "category": row.category or "no kind given",
        "attempts": row.attempts,
        "gpu": _hours(row.gpu_hours),
        "idle": None if _idle(row) is None else _hours(row.idle_gpu_hours),
        "idle_percent": _idle(row),
        "unmeasured": _hours(row.unmeasured_gpu_hours),
        "core": _hours(row.core_hours),
    }


def _tiles(usage: Usage) -> list[tuple[str, str, str]]:
    """Return label, figure and note of each sum."""
    total = usage.total
    percent = _idle(total)
    people = len({row.user for row in usage.rows})
    idle = ("no data", "nothing was measured")
    if percent is not None:
        idle = (_hours(total.idle_gpu_hours), f"{percent} % of what was measured")
    return [
        ("GPU hours", _hours(total.gpu_hours), f"of {people} {'person' if people == 1 else 'people'}"),
        ("Idle of them", *idle),
        ("Not measured", _hours(total.unmeasured_gpu_hours), "still running, or no figures came"),
        ("Core hours", _hours(total.core_hours), "of all jobs"),
    ]


def _idle(row: UsageRow) -> int | None:
    """Return the per cent of the measured GPU hours that were idle; None where none was measured."""
    measured = row.gpu_hours - row.unmeasured_gpu_hours
    return round(100 * row.idle_gpu_hours / measured) if measured > 0 else None


def _hours(hours: float) -> str:
    return f"{hours:,.0f}" if hours >= 100 else f"{hours:.2f}"
