"""Hops (SoCC '24, 3.6): the latency-ratio queue, its service window, located configurations, one weighted ILP.

What the ILP leaves because it stopped at its gap or its limit is filled greedily; when it has no plan, or one worse
than the greedy one, the greedy plan in queue order stands and is marked so. CPU jobs, which Hops does not have, come
after the GPU jobs, in the same order, by best fit. All jobs run on once placed: re-plans of elastic jobs come on top
of this.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from scheduler.errors import InvalidJob
from scheduler.fairness import window
from scheduler.fairness.priorities import PRIORITIES
from scheduler.model import SolverFigures
from scheduler.placement import configurations, located, solver, turn
from scheduler.placement.feasibility import idle_offers
from scheduler.placement.greedy import greedy_columns
from scheduler.work import Chosen, Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.fairness.borrowing import Terms
    from scheduler.fairness.priorities import Priority
    from scheduler.placement.located import Candidate
    from scheduler.policy import Parameters
    from scheduler.work import Ranked, Work

GENERATION_SHARE, SOLVE_SHARE = 0.4, 0.8
"""Of a planning's time: when generating configurations must stop, and when the solver must; the rest explains."""

MAX_COLUMNS, MIN_COLUMNS_PER_JOB = 20_000, 16
"""Located variables a solve may have: with more, HiGHS does not keep to its limit. Jobs are thinned out past it."""


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
        place_jointly(view.picked, work, outcome)
        top_up(view.picked, work, outcome)
        turn.place_cpu_jobs((ranked for ranked in work.queue if ranked.job.is_cpu), work, outcome)
        return outcome


def place_jointly(stage: Sequence[Ranked], work: Work, outcome: Outcome, terms: Terms | None = None) -> None:
    """Generate the stage's configurations, solve them together and take what was chosen.

    `terms`: what of the idle each job may use, and the factor on the value of what it borrows.
    """
    began_s = work.clock()
    generated = _generate(stage, work, outcome, terms)
    candidates = located.candidates_of(stage, outcome.candidates, outcome.weights)
    if terms is not None:
        candidates = [
            replace(each, value=each.value * terms.factor(each.ranked.job, each.configuration)) for each in candidates
        ]
    if not candidates:
        return
    greedy = greedy_columns(candidates, work.ledger.copy())
    chosen: Sequence[int] = greedy
    figures = SolverFigures(incumbent="greedy", candidates=generated, build_s=work.clock() - began_s)
    if work.parameters.placement == "ilp":
        chosen, figures = _solve(candidates, greedy, work, figures, began_s)
    objective = sum(candidates[column].value for column in chosen)
    bound = None if outcome.out_of_time else _bound(candidates, generated, figures.bound, work)
    outcome.solver = replace(figures, objective=objective, bound=bound, gap=solver.relative_gap(objective, bound))
    for column in located.in_turn(chosen, candidates, stage, work.ledger):
        _take(candidates[column], work, outcome)


def _bound(candidates: Sequence[Candidate], generated: int, solved: float | None, work: Work) -> float:
    """The best proven bound: the solver's only speaks for all configurations when none was thinned out."""
    simple = located.knapsack_bound(candidates, work.ledger)
    return simple if solved is None or generated > len(candidates) else min(simple, solved)


def _generate(stage: Sequence[Ranked], work: Work, outcome: Outcome, terms: Terms | None) -> int:
    """Fill `outcome.candidates` in rank order until time is up; how many configurations there were before thinning."""
    idle = idle_offers(work.ledger)
    enough_s = work.remaining_s * (1 - GENERATION_SHARE)
    most = max(MIN_COLUMNS_PER_JOB, MAX_COLUMNS // max(1, len(stage)))
    generated = 0
    for position, ranked in enumerate(stage):
        if work.remaining_s < enough_s:
            outcome.out_of_time.update(late.job.id for late in stage[position:])
            break
        try:
            offers = idle if terms is None else terms.offers(ranked)
            found = configurations.generate_on(ranked.job, offers, work.ledger, work.estimator)
        except InvalidJob as error:
            outcome.invalid[ranked.job.id] = error
            continue
        generated += len(found)
        outcome.candidates[ranked.job.id] = tuple(located.thin(found, most, ranked.rank))
    return generated


def _solve(
    candidates: Sequence[Candidate], greedy: Sequence[int], work: Work, figures: SolverFigures, began_s: float
) -> tuple[Sequence[int], SolverFigures]:
    """The better of the ILP's incumbent and the greedy plan, with the figures of the solve."""
    program = located.build(candidates, work.ledger)
    gap = work.parameters.gap_for(work.ledger.gpus_up)
    seed = int(work.rng.integers(2**31 - 1))
    built_s = work.clock()
    limit_s = work.remaining_s - (1 - SOLVE_SHARE) * work.parameters.limit_s
    answer = solver.NOTHING
    if limit_s > 0:
        answer = solver.solve(program, gap=gap, time_limit_s=limit_s, seed=seed, start=greedy)
    figures = replace(
        figures,
        formulation="located",
        status=answer.status,
        incumbent="greedy",
        variables=len(program.objective),
        constraints=len(program.rows),
        bound=answer.bound,
        gap_allowed=gap,
        build_s=built_s - began_s,
        solve_s=work.clock() - built_s,
    )
    greedy_objective = sum(candidates[column].value for column in greedy)
    if answer.chosen is not None and (answer.objective or 0.0) >= greedy_objective - 1e-9:
        return answer.chosen, replace(figures, incumbent="ilp")
    return greedy, figures


def _take(candidate: Candidate, work: Work, outcome: Outcome) -> None:
    job, configuration = candidate.ranked.job, candidate.configuration
    if work.ledger.shortfall(configuration, job.tenant) is not None:
        return  # a solver's tolerance let it through; the ledger is the judge, and the top-up gives the job a turn
    placement = work.ledger.take(configuration, job.tenant)
    count, weight = len(outcome.candidates[job.id]), outcome.weights[job.id]
    outcome.chosen[job.id] = Chosen(configuration, placement, candidate.gain, weight, count)


def top_up(stage: Sequence[Ranked], work: Work, outcome: Outcome) -> None:
    """Greedily place whoever of the stage still fits: every addition raises the objective, so an optimum has none."""
    topped_up = 0
    for ranked in stage:
        if work.remaining_s <= 0:
            break
        if ranked.job.id not in outcome.chosen and ranked.job.id not in outcome.invalid:
            placed = turn.take_turn(ranked, work, outcome)
            topped_up += placed and ranked.job.id in outcome.chosen
    outcome.solver = replace(outcome.solver, topped_up=topped_up)


POLICY = Hops()
