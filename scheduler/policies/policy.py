"""A policy: the order of a queue, and the places of its jobs; and one job after another, the placement of `fifo` and `sjf`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduler.fairness.priorities import PRIORITIES, Priority
from scheduler.placement import turn
from scheduler.placement.outcome import DraftPlan, Obstacles, Outcome, Standings, greedy_figures

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduler.parameters import Parameters
    from scheduler.placement.work import Work


def by_knob(parameters: Parameters) -> Priority:
    """The order that the knob `priority` names."""
    return PRIORITIES[parameters.priority]


@dataclass(frozen=True, slots=True)
class Policy:
    """The order of a queue, and which of its jobs are placed where. All else in a planning is the same for all policies.

    place     decides which jobs start, stop or get a promise, and takes their resources from `work.ledger`. When time is up,
              it returns the decisions that it has; it never raises for that.
    priority  the queue's order under these knobs; larger is sooner
    replans   whether running elastic jobs take part in its re-plans
    is_fair   whether tenants take turns by their shares under these knobs
    sweeps    whether it offers what is left idle to every waiting job, behind the windows' ends too (`fairness.sweep`)
    round_s   the length of its published rounds, in seconds, where it differs from the default of `replan_s`
    pays      whether a change of a running job must pay for its restart (`replan.paying`), so that it is looked at sooner
    """

    name: str
    meaning: str
    place: Callable[[Work], Outcome]
    priority: Callable[[Parameters], Priority] = lambda _: PRIORITIES["fifo"]
    replans: bool = False
    is_fair: Callable[[Parameters], bool] = lambda _: False
    sweeps: Callable[[Parameters], bool] = lambda _: False
    pays: Callable[[Parameters], bool] = lambda _: False
    round_s: float | None = None


def greedy(work: Work, *, passes: bool = True) -> Outcome:
    """Let each job of the queue take its turn: a GPU job its fastest configuration that fits, a CPU job the best fit.

    `passes`: whether a job that does not fit is passed by the jobs behind it; else it ends the planning. A job that only its
    tenant's quota keeps back never blocks the others.
    """
    draft = DraftPlan()
    standings, obstacles = Standings(window_gpus=work.ledger.gpus_up), Obstacles()
    failed: set[tuple[object, ...]] = set()
    for position, ranked in enumerate(work.queue):
        if work.remaining_s <= 0:
            obstacles = Obstacles(out_of_time=frozenset(late.job.id for late in work.queue[position:]))
            break
        if work.ledger.over_quota(ranked.job) is not None:
            continue
        standings.window.add(ranked.job.id)
        # Within a planning room only shrinks, so a shape that failed stays failed.
        if failed and turn.shape(ranked.job) in failed:
            continue
        if not turn.take_turn(ranked, work, draft):
            if not passes:
                obstacles = Obstacles(blocked_by=ranked)
                break
            failed.add(turn.shape(ranked.job))
    return Outcome(draft, standings, obstacles, greedy_figures(draft))
