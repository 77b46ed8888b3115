"""A policy that goes through its queue once: each job in turn takes the best that is left for it.

GPU and CPU jobs stand in one queue. A GPU job takes its fastest configuration that fits, a CPU job the best fit. A job that
only its tenant's quota keeps back does not block the others. No running job is stopped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduler.fairness.priorities import PRIORITIES
from scheduler.placement import turn
from scheduler.placement.answers import Answers
from scheduler.placement.gain import Worth
from scheduler.placement.outcome import Obstacles, Outcome, Standings, Trail, greedy_figures

if TYPE_CHECKING:
    from scheduler.fairness.priorities import Priority
    from scheduler.parameters import Parameters
    from scheduler.placement.work import Work


@dataclass(frozen=True, slots=True)
class Greedy:
    """`order`: a name in `PRIORITIES`. `blocks`: the first job that does not fit ends the planning; else it is passed over."""

    name: str
    meaning: str
    order: str
    blocks: bool
    replans: bool = False

    def priority(self, parameters: Parameters) -> Priority:
        return PRIORITIES[self.order]

    def place(self, work: Work) -> Outcome:
        answers, worth, trail = Answers(), Worth(), Trail()
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
            if turn.shape(ranked.job) in failed or turn.take_turn(ranked, work, answers, worth, trail):
                continue
            if self.blocks:
                obstacles = Obstacles(blocked_by=ranked)
                break
            failed.add(turn.shape(ranked.job))
        return Outcome(answers, standings, worth, trail, obstacles, greedy_figures(answers))
