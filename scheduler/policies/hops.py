"""Hops (SoCC '24, 3.6): the latency-ratio queue, its service window, one weighted ILP for where and how large.

What the ILP leaves because it stopped at its gap or its limit is filled greedily; when it has no plan, or one worse
than the greedy one, the greedy plan in queue order stands and is marked so. CPU jobs, which Hops does not have, come
after the GPU jobs, in the same order, by best fit. In a re-plan running elastic jobs are solved for with the window.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from scheduler.fairness import sensitivity, window
from scheduler.fairness.priorities import PRIORITIES
from scheduler.model import SolverFigures
from scheduler.parameters.choices import POLICIES
from scheduler.placement import cpu, turn
from scheduler.placement.joint import is_located, place_jointly, together, top_up
from scheduler.placement.running import joint_weights
from scheduler.placement.work import Outcome
from scheduler.replan.better import take_better
from scheduler.replan.making_room import make_room
from scheduler.replan.nearby import replan_nearby
from scheduler.replan.participants import by_class, joint
from scheduler.replan.realise import realise, tidy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.fairness.priorities import Priority
    from scheduler.model import Ranked
    from scheduler.parameters import Parameters
    from scheduler.placement.work import Work


@dataclass(frozen=True, slots=True)
class Hops:
    name: str = "hops"
    meaning: str = POLICIES["hops"]
    replans: bool = True

    def priority(self, parameters: Parameters) -> Priority:
        return PRIORITIES[parameters.priority]

    def place(self, work: Work) -> Outcome:
        began_s = work.clock()
        cpu_queue = [ranked for ranked in work.queue if ranked.job.is_cpu]
        whole, work = work, work.before(cpu.LIMIT_SHARE * bool(cpu_queue)).with_least()
        solving = joint(work)  # in a re-plan what participants hold is idle too, until `realise`
        queue = [ranked for ranked in work.queue if not ranked.job.is_cpu]
        view = window.fill(queue, solving.ledger, work.parameters.window_size)
        if work.adjusts_sensitivity:
            idle, sigma = work.ledger.idle_gpus, work.parameters.sigma
            more = sensitivity.joining(view.picked, queue, view.sated, idle, work.estimator, sigma)
            view = replace(view, picked=(*view.picked, *more))
        outcome = Outcome({}, {ranked.job.id for ranked in view.picked}, set(view.sated), view.gpus)
        outcome.window_s = work.clock() - began_s
        outcome.weights = joint_weights(view.picked, work.changeable, work.parameters.lambda_)
        if is_located(work) or by_class(work):
            place_jointly([*(each.ranked for each in work.participants.values()), *view.picked], solving, outcome)
            tidy(solving, outcome)
            top_up(view.picked, solving, outcome)
            if work.participants:
                realise(work, outcome)
        else:
            _place_large(view.picked, solving, work, outcome)
        make_room((), view.picked, work, outcome)
        take_better(work, outcome)
        turn.place_cpu_jobs(cpu_queue, whole, outcome)
        return outcome


def _place_large(picked: Sequence[Ranked], solving: Work, work: Work, outcome: Outcome) -> None:
    if work.participants:
        replan_nearby(picked, solving, work, outcome, lambda _: None)
    nearby, own = outcome.solver, replace(work, participants={})
    rest = [ranked for ranked in picked if not outcome.has_answer(ranked.job.id)]
    outcome.solver = SolverFigures()
    place_jointly(rest, own, outcome)
    outcome.solver = together([nearby, outcome.solver])
    top_up(rest, own, outcome)


POLICY = Hops()
