"""Hops (SoCC '24, 3.6): the latency-ratio queue, its service window, one weighted ILP for where and how large.

If the ILP stops at its gap or its time limit, greedy turns fill what it left idle. If it has no plan, or one that is worse than
the greedy plan in queue order, the greedy plan is taken and marked so. CPU jobs, which Hops does not have, come after the GPU
jobs, in the same order, by best fit. In a re-plan running elastic jobs are solved for together with the window.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.copies import replace
from scheduler.fairness import window
from scheduler.parameters.choices import POLICIES
from scheduler.placement import cpu, turn
from scheduler.placement.joint import all_of, is_located, place_jointly, top_up
from scheduler.placement.objective import Objective
from scheduler.placement.outcome import DraftPlan, Obstacles, Outcome, Staged, Standings
from scheduler.placement.running import joint_weights
from scheduler.policies.policy import Policy, by_knob
from scheduler.replan.participants import by_class, joint
from scheduler.replan.realise import realise, replan_nearby, tidy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.model import Ranked
    from scheduler.placement.work import Work


def place(work: Work) -> Outcome:
    began_s = work.clock()
    cpu_queue = [ranked for ranked in work.queue if ranked.job.is_cpu]
    whole, work = work, work.before(cpu.LIMIT_SHARE * bool(cpu_queue), cpu.WALKS * bool(cpu_queue)).with_least()
    solving = joint(work)  # in a re-plan what participants hold is idle too, until `realise`
    queue = [ranked for ranked in work.queue if not ranked.job.is_cpu]
    view = window.fill(queue, solving.ledger, work.parameters.window_size)
    if not work.replan:
        idle, sigma = work.ledger.idle_gpus, work.parameters.sigma
        more = window.joining(view.picked, queue, view.sated, idle, work.estimator, sigma)
        view = replace(view, picked=(*view.picked, *more))
    window_s = work.clock() - began_s
    weights = joint_weights(view.picked, work.changeable, work.parameters.lambda_)
    draft = DraftPlan(objective=Objective(weights=weights))
    place_gpu_jobs = _place_at_once if is_located(work) or by_class(work) else _place_large
    staged = place_gpu_jobs(view.picked, solving, work, draft)
    turns = turn.place_cpu_jobs(cpu_queue, whole, draft)
    inside = {*(ranked.job.id for ranked in view.picked), *turns.came}
    return Outcome(
        draft,
        Standings(inside, set(view.sated), view.gpus, window_s),
        Obstacles(out_of_time=staged.out_of_time | turns.out_of_time),
        staged.figures,
        left=staged.left,
    )


def _place_at_once(picked: Sequence[Ranked], solving: Work, work: Work, draft: DraftPlan) -> Staged:
    """Place the window together with the running jobs that take part."""
    running = [each.ranked for each in work.participants.values()]
    staged = place_jointly([*running, *picked], solving, draft)
    tidy(solving, draft)
    topped_up = top_up(picked, solving, draft)
    if work.participants:
        realise(work, draft)
    return replace(staged, figures=replace(staged.figures, topped_up=topped_up))


def _place_large(picked: Sequence[Ranked], solving: Work, work: Work, draft: DraftPlan) -> Staged:
    """Solve for the running jobs of a part of the cluster with the head of the window, then place the rest of the window."""
    near = Staged()
    if work.participants:
        near = replan_nearby(picked, solving, work, draft, lambda _: None)
    own = replace(work, participants={})
    rest = [ranked for ranked in picked if not draft.has(ranked.job.id)]
    staged = all_of([near, place_jointly(rest, own, draft, solved=len(near.left))])
    topped_up = top_up(rest, own, draft)
    return replace(staged, figures=replace(staged.figures, topped_up=topped_up))


POLICY = Policy("hops", POLICIES["hops"], place, by_knob, replans=True)
