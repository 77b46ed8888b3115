"""One queue, one job after another: the placement of `fifo` and `sjf`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.placement import turn
from scheduler.placement.outcome import DraftPlan, Obstacles, Outcome, Standings, greedy_figures

if TYPE_CHECKING:
    from scheduler.placement.work import Work


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
