"""When a job is expected to start and to end, as pages show it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from portal.pages.dashboard.parts.context import StartsContext
    from portal.planning.rounds.read.ends import Expected
    from portal.planning.rounds.read.forecasts import Start


def starts_make(start: Start | None) -> StartsContext | None:
    if start is None:
        return None
    return {
        "earliest": start.earliest_at.isoformat(),
        "median": start.median_at.isoformat() if start.median_at else None,
        "latest": start.latest_at.isoformat() if start.latest_at else None,
        "passed": start.passed,
    }


def ends_make(end: Expected | None) -> dict[str, Any] | None:
    """Return `about` and the range; None where no time is known."""
    if end is None or end.median_at is None:
        return None
    return {
        "about": end.median_at.isoformat(),
        "earliest": end.earliest_at.isoformat() if end.earliest_at else None,
        "latest": end.latest_at.isoformat() if end.latest_at else None,
    }
