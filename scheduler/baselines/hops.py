"""Hops (SoCC '24, 3.6): the latency-ratio queue, its service window, one weighted ILP for where and how large.

What the ILP leaves because it stopped at its gap or its limit is filled greedily; when it has no plan, or one worse
than the greedy one, the greedy plan in queue order stands and is marked so. CPU jobs, which Hops does not have, come
after the GPU jobs, in the same order, by best fit. All jobs run on once placed: re-plans of elastic jobs come on top
of this.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduler.fairness import window
from scheduler.fairness.priorities import PRIORITIES
from scheduler.model import SolverFigures
from scheduler.placement import located, turn
from scheduler.placement.joint import place_jointly, top_up
from scheduler.work import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.fairness.priorities import Priority
    from scheduler.policy import Parameters
    from scheduler.work import Ranked, Work


@dataclass(frozen=True, slots=True)
class Hops:
    name: str = "hops"
    meaning: str = "latency-ratio fairness, service window and a joint ILP for where and how large"

    def priority(self, parameters: Parameters) -> Priority:
        return PRIORITIES[parameters.priority]

    def place(self, work: Work) -> Outcome:
        view = window.fill(
            [ranked for ranked in work.queue if not ranked.job.is_cpu], work.ledger, work.parameters.window_size
        )
        outcome = Outcome({}, {ranked.job.id for ranked in view.picked}, set(view.sated), view.gpus)
        outcome.weights = located.weights(view.picked, work.parameters.lambda_)
        if work.parameters.placement == "ilp":
            place_jointly(view.picked, work, outcome)
            top_up(view.picked, work, outcome)
        else:
            _in_order(view.picked, work, outcome)
        turn.place_cpu_jobs((ranked for ranked in work.queue if ranked.job.is_cpu), work, outcome)
        return outcome


def _in_order(picked: Sequence[Ranked], work: Work, outcome: Outcome) -> None:
    """Strict queue order: each job in turn takes the best of what is left."""
    for position, ranked in enumerate(picked):
        if work.remaining_s <= 0:
            outcome.out_of_time.update(late.job.id for late in picked[position:])
            break
        turn.take_turn(ranked, work, outcome)
    if outcome.chosen:
        outcome.solver = SolverFigures(incumbent="greedy")


POLICY = Hops()
