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
from scheduler.placement import located, turn
from scheduler.placement.joint import place_jointly, top_up
from scheduler.work import Outcome

if TYPE_CHECKING:
    from scheduler.fairness.priorities import Priority
    from scheduler.policy import Parameters
    from scheduler.work import Work


@dataclass(frozen=True, slots=True)
class Hops:
    name: str = "hops"
    meaning: str = "latency-ratio fairness, service window and a joint ILP for where and how large"

    def priority(self, parameters: Parameters) -> Priority:
        return PRIORITIES[parameters.priority]

    def place(self, work: Work) -> Outcome:
        began_s = work.clock()
        view = window.fill(
            [ranked for ranked in work.queue if not ranked.job.is_cpu], work.ledger, work.parameters.window_size
        )
        outcome = Outcome({}, {ranked.job.id for ranked in view.picked}, set(view.sated), view.gpus)
        outcome.window_s = work.clock() - began_s
        outcome.weights = located.weights(view.picked, work.parameters.lambda_)
        place_jointly(view.picked, work, outcome)
        top_up(view.picked, work, outcome)
        turn.place_cpu_jobs((ranked for ranked in work.queue if ranked.job.is_cpu), work, outcome)
        return outcome


POLICY = Hops()
