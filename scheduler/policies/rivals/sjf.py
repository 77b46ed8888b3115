"""SJF, a baseline of DqnGPU's evaluation (algorithms.md section 12): the job with the shortest expected run time first.

GPU and CPU jobs stand in one queue, by `age` (section 3). Each in turn takes its fastest configuration that fits (GPU) or
the best fit (CPU). A job that does not fit is passed over, because in a shortest-job queue no job can lose its turn.
Jobs are never stopped. A simulation policy: see `scheduler.simulator.rivals`.
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
class Sjf:
    name: str = "sjf"
    meaning: str = "shortest expected run time first, who does not fit is passed"
    replans: bool = False

    def priority(self, parameters: Parameters) -> Priority:
        return PRIORITIES["sjf"]

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
            if turn.shape(ranked.job) not in failed and not turn.take_turn(ranked, work, answers, worth, trail):
                failed.add(turn.shape(ranked.job))
        return Outcome(answers, standings, worth, trail, obstacles, greedy_figures(answers))


POLICY = Sjf()
