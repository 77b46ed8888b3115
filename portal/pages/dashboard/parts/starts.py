"""A waiting job's start range, as `parts/_starts.html` shows it in every list and on every page."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from portal.pages.dashboard.parts.context import StartsContext
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
