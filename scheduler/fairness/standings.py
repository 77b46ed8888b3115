"""A planning's windows and shares for the pages (algorithms.md section 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.model import ShareView, Side, Standing, WindowView

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.fairness.drf import Shares
    from scheduler.fairness.progressive import Windows


def standings_of(windows: Windows) -> dict[int, Standing]:
    """Each picked job's array, side of the window and turn in it (1 = picked first)."""
    found: dict[int, Standing] = {}
    for array, window in windows.by_array.items():
        fronts = len(window.front)
        for turn, ranked in enumerate(window.picked, start=1):
            found[ranked.job.id] = Standing(str(array), Side.FRONT if turn <= fronts else Side.BACKFILL, turn)
    return found


def views_of(windows: Windows) -> list[WindowView]:
    """The window of every GPU array, also an empty one."""
    return [
        WindowView(str(array), each.capacity, each.idle, each.counted, len(each.picked), len(each.front))
        for array, each in windows.by_array.items()
    ]


def shares_of(resource: str, before: Mapping[int, float], shares: Shares, capacity: float) -> list[ShareView]:
    """Each tenant's holding (`before`) and its share with its picks (`shares`), in tenants' order."""
    return [
        ShareView(tenant, resource, before.get(tenant, 0.0), units, capacity, shares.weights.get(tenant, 1.0))
        for tenant, units in sorted(shares.held.items())
    ]
