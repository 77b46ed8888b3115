"""FIFO, the baseline of CODA's evaluation: one queue by submission, strictly in order.

GPU and CPU jobs stand in one queue. Each GPU job in turn takes its fastest configuration that fits, each CPU job the best fit.
The first job that does not fit ends the planning: no job passes it, and there is no backfill. A job that only its tenant's
quota keeps back does not block the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduler.fairness.priorities import PRIORITIES
from scheduler.parameters.choices import POLICIES
from scheduler.placement import turn
from scheduler.placement.answers import Answers
from scheduler.placement.gain import Worth
from scheduler.placement.outcome import Obstacles, Outcome, Standings, Trail, greedy_figures

if TYPE_CHECKING:
    from scheduler.fairness.priorities import Priority
    from scheduler.parameters import Parameters
    from scheduler.placement.work import Work


@dataclass(frozen=True, slots=True)
class Fifo:
    name: str = "fifo"
    meaning: str = POLICIES["fifo"]
    replans: bool = False

    def priority(self, parameters: Parameters) -> Priority:
        return PRIORITIES["fifo"]

    def place(self, work: Work) -> Outcome:
        answers, worth, trail = Answers(), Worth(), Trail()
        standings, obstacles = Standings(window_gpus=work.ledger.gpus_up), Obstacles()
        for position, ranked in enumerate(work.queue):
            if work.remaining_s <= 0:
                obstacles = Obstacles(out_of_time=frozenset(late.job.id for late in work.queue[position:]))
                break
            if work.ledger.over_quota(ranked.job) is not None:
                continue
            standings.window.add(ranked.job.id)
            if not turn.take_turn(ranked, work, answers, worth, trail):
                obstacles = Obstacles(blocked_by=ranked)
                break
        return Outcome(answers, standings, worth, trail, obstacles, greedy_figures(answers))


POLICY = Fifo()
