"""Where a job stands in the windows of a planning (algorithms.md sections 4 and 7): its array, its tenant's share, and
the boundary at which the window closed. Kept as the policy's own lists and read only when somebody asks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from scheduler.fairness.progressive import Windows
    from scheduler.model import Job
    from scheduler.work import Ranked


@dataclass(frozen=True, slots=True)
class View:
    """One window: who was picked, in order of picking, and how many of them were the front."""

    array: str | None  # None where the policy has no arrays
    picked: Sequence[Ranked]
    front_jobs: int
    capacity_gpus: int
    idle_gpus: int | None  # at which the front ended; None where the policy has no front


@dataclass(slots=True)
class Standing:
    """The windows by array. `home`: a job's array; `share_left`: a tenant's weighted share once all was picked."""

    views: Mapping[str | None, View]
    home: Callable[[Job], str | None]
    share_left: Callable[[int], float] | None  # None where nobody has a share
    _places: dict[str | None, dict[int, int]] = field(default_factory=dict)
    _boundaries: dict[str | None, dict[str, Any]] = field(default_factory=dict)

    def place(self, job: Job) -> tuple[str | None, int | None]:
        """The job's array, and its place among the picks there, from 1; None = outside."""
        array = self.home(job)
        if array not in self._places:
            picked = self.views[array].picked if array in self.views else ()
            self._places[array] = {each.job.id: place for place, each in enumerate(picked, start=1)}
        return array, self._places[array].get(job.id)

    def share_at_close(self, tenant: int) -> float | None:
        return None if self.share_left is None else self.share_left(tenant)

    def is_front(self, array: str | None, place: int) -> bool:
        return place <= self.views[array].front_jobs

    def boundary(self, array: str | None) -> dict[str, Any]:
        """The window's figures: see `scheduler.detail` for their names and units; {} where there is no window."""
        if array not in self._boundaries:
            view = self.views.get(array)
            self._boundaries[array] = {} if view is None else _figures(view)
        return self._boundaries[array]


def _figures(view: View) -> dict[str, Any]:
    asked = sum(each.job.min_gpus for each in view.picked)
    return {
        "jobs": len(view.picked),
        "front_jobs": view.front_jobs,
        "asked_gpus": asked,
        "capacity_gpus": view.capacity_gpus,
        "idle_gpus": view.idle_gpus,
        "last_rank": max((each.rank for each in view.picked), default=None),
        "closed": asked >= view.capacity_gpus,
    }


def of_windows(windows: Windows, home: Callable[[Job], str], *, fair: bool) -> Standing:
    """The standing in progressive windows. `fair` false: nobody has a share."""
    views: dict[str | None, View] = {
        str(array): View(str(array), each.picked, len(each.front), each.capacity, each.idle)
        for array, each in windows.by_array.items()
    }
    shares = windows.shares
    return Standing(views, home, shares.of if fair and shares is not None else None)


def of_one(picked: Sequence[Ranked], capacity_gpus: int) -> Standing:
    """The standing in Hops' one window: no arrays, no shares, all of it front."""
    view = View(None, picked, len(picked), capacity_gpus, None)
    return Standing({None: view}, lambda job: "cpu" if job.is_cpu else None, None)
