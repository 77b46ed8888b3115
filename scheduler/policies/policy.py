"""A policy: the order of a queue, and the places of its jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduler.fairness.priorities import PRIORITIES, Priority

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduler.parameters import Parameters
    from scheduler.placement.outcome import Outcome
    from scheduler.placement.work import Work


def by_submission(_: Parameters) -> Priority:
    return PRIORITIES["fifo"]


def by_knob(parameters: Parameters) -> Priority:
    """The order that the knob `priority` names."""
    return PRIORITIES[parameters.priority]


def always(_: Parameters) -> bool:
    return True


def never(_: Parameters) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Policy:
    """The order of a queue, and which of its jobs are placed where. All else in a planning is the same for all policies.

    place     decides which jobs start, stop or get a promise, and takes their resources from `work.ledger`. When time is up,
              it returns the decisions that it has; it never raises for that.
    priority  the queue's order under these knobs; larger is sooner
    replans   whether running elastic jobs take part in its re-plans
    is_fair   whether tenants take turns by their shares under these knobs
    sweeps    whether it offers what is left idle to every waiting job, behind the windows' ends too (`fairness.sweep`)
    pays      whether a change of a running job must pay for its restart (`replan.paying`), so that it is looked at sooner
    """

    name: str
    meaning: str
    place: Callable[[Work], Outcome]
    priority: Callable[[Parameters], Priority] = by_submission
    replans: bool = False
    is_fair: Callable[[Parameters], bool] = never
    sweeps: Callable[[Parameters], bool] = never
    pays: Callable[[Parameters], bool] = never
