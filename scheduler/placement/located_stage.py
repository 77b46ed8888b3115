"""One stage placed by the located formulation: candidates node by node, thinned out, solved and taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.copies import replace
from scheduler.errors import InvalidJob
from scheduler.model import Chosen, Ranked, SolverFigures
from scheduler.placement import configurations, located, solver
from scheduler.placement.access import NO_RULES, OfferingRules, Rules
from scheduler.placement.aggregated.candidates import candidates_by_class
from scheduler.placement.aggregated.classes import Classes
from scheduler.placement.aggregated.own_speeds import own_speeds_of
from scheduler.placement.outcome import DraftPlan, Staged
from scheduler.placement.running import changes, least_of_all, must_run, revalued
from scheduler.placement.turn import greedy_columns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from scheduler.placement.located import Candidate, Program
    from scheduler.placement.solver import Solution
    from scheduler.placement.work import Work

GENERATION_SHARE, SOLVE_SHARE = 0.4, 0.9
"""Shares of a planning's time: when generating configurations must stop, and when the solver must; the rest explains."""

MAX_COLUMNS, MIN_COLUMNS_PER_JOB = 20_000, 16
"""Located variables a solve may have: with more, HiGHS does not keep to its limit. Jobs are thinned out past it."""


def least_of(
    stage: Sequence[Ranked], work: Work, weights: Mapping[int, float], rules: Rules = NO_RULES
) -> dict[int, float]:
    """The divisor of each job's G: the smallest throughput among all that could be generated for it now."""
    own_speeds = own_speeds_of(stage, weights, work.ledger, work.estimator, work.parameters.own_speeds)
    classes = Classes(work.ledger, stage, rules, own_speeds=own_speeds)
    enough_s = work.remaining_s * (1 - GENERATION_SHARE)
    candidates = candidates_by_class(
        stage,
        weights,
        classes,
        work.ledger,
        work.estimator,
        sigma=work.parameters.sigma,
        late=lambda: work.remaining_s < enough_s,
    )
    return candidates.least


def place_located(
    stage: Sequence[Ranked],
    work: Work,
    draft: DraftPlan,
    *,
    access_rules: OfferingRules | None = None,
    must_start: AbstractSet[int] = frozenset(),
) -> Staged:
    """Generate the stage's configurations, solve them together and take what was chosen."""
    began_s = work.clock()
    generated, out_of_time = _generate(stage, work, draft, access_rules)
    rules = access_rules or NO_RULES
    draft.objective.least.update(least_of(stage, work, draft.objective.weights, rules))
    draft.objective.least.update(least_of_all(draft.objective.least, work.participants, draft.candidates))
    candidates = located.candidates_of(
        stage, draft.candidates, draft.objective.weights, least=draft.objective.least, rules=rules
    )
    if candidates and work.participants:
        candidates = revalued(candidates, work.participants, draft.objective.weights)
    if not candidates:
        return Staged(out_of_time=out_of_time)
    greedy = greedy_columns(candidates, work.ledger.copy(), changes(candidates, work.participants))
    figures = SolverFigures(incumbent="greedy", candidates=generated, build_s=work.clock() - began_s)
    chosen: Sequence[int] = greedy
    if work.parameters.placement == "ilp":
        chosen, figures = _solve(candidates, greedy, work, must_start, figures, began_s)
    objective = sum(candidates[column].value for column in chosen)
    bound = located.knapsack_bound(candidates, work.ledger)
    if figures.bound is not None and generated <= len(candidates):  # else the solver did not see them all
        bound = min(bound, figures.bound)
    figures = replace(figures, objective=objective, bound=bound, gap=solver.relative_gap(objective, bound))
    for column in located.in_turn(chosen, candidates, stage, work.ledger):
        _take(candidates[column], work, draft)
    return Staged(figures, out_of_time)


def _generate(
    stage: Sequence[Ranked], work: Work, draft: DraftPlan, access_rules: OfferingRules | None
) -> tuple[int, frozenset[int]]:
    """Fill the draft's candidates in rank order until time is up: their number before thinning, and the jobs without time."""
    idle = work.ledger.idle_offers()
    core_counts = work.ledger.core_counts()
    enough_s = work.remaining_s * (1 - GENERATION_SHARE)
    most = max(MIN_COLUMNS_PER_JOB, MAX_COLUMNS // max(1, len(stage)))
    generated = 0
    # A running job may always keep its place.
    draft.candidates.update({number: (each.present,) for number, each in work.participants.items()})
    for position, ranked in enumerate(stage):
        if work.remaining_s < enough_s:
            return generated, frozenset(late.job.id for late in stage[position:])
        running = work.participants.get(ranked.job.id)
        try:
            offers = idle if access_rules is None else access_rules.offers(ranked)
            offers = offers if running is None else running.own_offers(offers, work.ledger)
            cores = core_counts[ranked.job.id in work.ledger.limited]
            found = configurations.generate_on(
                ranked.job, offers, work.ledger, work.estimator, sigma=work.parameters.sigma, core_counts=cores
            )
        except InvalidJob as error:
            draft.invalid[ranked.job.id] = error
            continue
        generated += len(found)
        thinned = located.thin(found, most, ranked.rank)
        draft.candidates[ranked.job.id] = tuple(thinned) if running is None else running.offered(thinned)
    return generated, frozenset()


def _solve(
    candidates: Sequence[Candidate],
    greedy: Sequence[int],
    work: Work,
    must_start: AbstractSet[int],
    figures: SolverFigures,
    began_s: float,
) -> tuple[Sequence[int], SolverFigures]:
    """The better of the ILP's incumbent and the greedy plan, with the figures of the solve."""
    program = located.build(candidates, work.ledger)
    must_run(program, candidates, must_start)
    if work.parameters.preemption == "off":
        must_run(program, candidates, work.participants)
    built_s = work.clock()
    solution = _solution(program, candidates, greedy, work)
    figures = replace(
        figures,
        formulation="located",
        status=solution.status,
        variables=len(program.objective),
        constraints=len(program.rows),
        bound=solution.bound,
        gap_allowed=work.parameters.gap_for(work.ledger.gpus_up),
        build_s=built_s - began_s,
        solve_s=work.clock() - built_s,
    )
    greedy_objective = sum(candidates[column].value for column in greedy)
    if solution.chosen is not None and (solution.objective or 0.0) >= greedy_objective - 1e-9:
        return solution.chosen, replace(figures, incumbent="ilp")
    return greedy, figures


def _solution(program: Program, candidates: Sequence[Candidate], greedy: Sequence[int], work: Work) -> Solution:
    """The solver's, if there is time to ask it and it need be asked."""
    gap = work.parameters.gap_for(work.ledger.gpus_up)
    seed = int(work.rng.integers(2**31 - 1))
    limit_s = work.remaining_s - (1 - SOLVE_SHARE) * work.parameters.limit_s
    if limit_s <= 0:
        return solver.NOTHING
    at_best = solver.best_of_each(program, [each.ranked.job.id for each in candidates])
    return at_best or solver.solve(program, gap=gap, time_limit_s=limit_s, seed=seed, start=greedy)


def _take(candidate: Candidate, work: Work, draft: DraftPlan) -> None:
    job, configuration = candidate.ranked.job, candidate.configuration
    if work.ledger.shortfall(configuration, job.tenant) is not None:
        return  # a solver's tolerance let it through; the ledger is the judge, and the top-up gives the job a turn
    placement = work.ledger.take(configuration, job.tenant)
    count, weight = len(draft.candidates[job.id]), draft.objective.weights[job.id]
    draft.chosen[job.id] = Chosen(configuration, placement, candidate.gain, weight, count)
