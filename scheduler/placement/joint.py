"""One stage of the queue placed jointly: which formulation, within which time, and what is left to say for it.

The *located* formulation serves clusters of up to `LOCATED_NODES` GPU nodes, the *aggregated* one larger ones
(algorithms.md section 6). Either keeps to the planning's time: a share for making configurations, a share for the
solver, the rest for handing out and explaining; when time is short it is the greedy plan that stands, marked so.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from scheduler.errors import InvalidJob
from scheduler.model import Chosen, SolverFigures
from scheduler.placement import configurations, located, solver, turn
from scheduler.placement.access import NO_RULES
from scheduler.placement.aggregated.classes import Classes
from scheduler.placement.aggregated.formulation import Limits, solve_aggregated
from scheduler.placement.aggregated.options import options_of
from scheduler.placement.feasibility import idle_offers
from scheduler.placement.greedy import greedy_columns
from scheduler.placement.menu import menus_of
from scheduler.placement.running import changes, least_of_all, must_run, revalued
from scheduler.placement.work import Classed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scheduler.model import Ranked
    from scheduler.placement.access import OfferingRules, Rules
    from scheduler.placement.aggregated.formulation import Aggregated
    from scheduler.placement.located import Candidate
    from scheduler.placement.work import Outcome, Work

LOCATED_NODES = 16
GENERATION_SHARE, SOLVE_SHARE = 0.4, 0.9
"""Of a planning's time: when generating configurations must stop, and when the solver must; the rest explains."""

MAX_COLUMNS, MIN_COLUMNS_PER_JOB = 20_000, 16
"""Located variables a solve may have: with more, HiGHS does not keep to its limit. Jobs are thinned out past it."""

FORMULATIONS = ("located", "aggregated")


def place_jointly(
    stage: Sequence[Ranked],
    work: Work,
    outcome: Outcome,
    *,
    formulation: str | None = None,
    terms: OfferingRules | None = None,
) -> None:
    """Place the stage together and record it. `formulation`: as the cluster's size says when None.

    `terms`: what of the idle each job may use, and the factor on the value of what it borrows.
    """
    if formulation is None:
        formulation = "located" if is_located(work) else "aggregated"
    if formulation == "aggregated" and work.parameters.placement == "ilp":
        _place_aggregated(stage, work, outcome, terms or NO_RULES)
    else:
        _place_located(stage, work, outcome, terms)


def is_located(work: Work) -> bool:
    """Whether the cluster is small enough for the located formulation."""
    return _gpu_nodes(work) <= LOCATED_NODES


def _gpu_nodes(work: Work) -> int:
    return sum(room.node.gpus_total > 0 for room in work.ledger.rooms.values())


def _place_aggregated(
    stage: Sequence[Ranked],
    work: Work,
    outcome: Outcome,
    rules: Rules,
) -> None:
    if not stage:
        return
    gap = work.parameters.gap_for(work.ledger.gpus_up)
    rest_s = min((1 - SOLVE_SHARE) * work.parameters.limit_s, (1 - SOLVE_SHARE) * max(0.0, work.remaining_s))
    deadline_s = work.deadline_s - rest_s
    memory = work.memory.of(len(outcome.left))
    limits = Limits(work.clock, deadline_s, gap, int(work.rng.integers(2**31 - 1)), memory)
    answer = solve_aggregated(
        stage,
        outcome.weights,
        work.ledger,
        work.estimator,
        limits,
        sigma=work.parameters.sigma,
        rules=rules,
        participants={each.job.id: own for each in stage if (own := work.participants.get(each.job.id)) is not None},
    )
    outcome.left.append(answer.left)
    outcome.invalid |= answer.options.invalid
    outcome.least |= answer.options.least
    outcome.out_of_time.update(ranked.job.id for ranked in answer.options.out_of_time)
    rows, nodes_of = tuple(answer.options.rows), answer.classes.nodes_of
    outcome.classed |= {
        each.job.id: Classed(own, rows, nodes_of) for own in answer.options.groups for each in own.members
    }
    for placed in answer.placed:
        job, configuration = placed.ranked.job, placed.configuration
        if work.ledger.shortfall(configuration, job.tenant) is None:
            placement = work.ledger.take(configuration, job.tenant)
            weight = outcome.weights[job.id]
            outcome.chosen[job.id] = Chosen(configuration, placement, placed.gain, weight, placed.options)
    outcome.solver = _figures(answer, gap)


def _figures(answer: Aggregated, gap: float) -> SolverFigures:
    if not answer.options.groups:
        return SolverFigures()
    return SolverFigures(
        formulation="aggregated",
        status=answer.status,
        incumbent=answer.incumbent,
        candidates=answer.candidates,
        variables=answer.variables,
        constraints=answer.constraints,
        objective=answer.objective,
        bound=answer.bound,
        gap=solver.relative_gap(answer.objective, answer.bound),
        gap_allowed=gap,
        build_s=answer.build_s,
        solve_s=answer.solve_s,
    )


def least_of(
    stage: Sequence[Ranked], work: Work, weights: Mapping[int, float], rules: Rules = NO_RULES
) -> dict[int, float]:
    """What each job's G divides by: the smallest throughput among all that could be generated for it now."""
    classes = Classes(work.ledger, stage, rules)
    enough_s = work.remaining_s * (1 - GENERATION_SHARE)
    options = options_of(
        stage,
        weights,
        classes,
        work.ledger,
        work.estimator,
        sigma=work.parameters.sigma,
        late=lambda: work.remaining_s < enough_s,
    )
    return options.least


def _place_located(stage: Sequence[Ranked], work: Work, outcome: Outcome, terms: OfferingRules | None) -> None:
    """Generate the stage's configurations, solve them together and take what was chosen."""
    began_s = work.clock()
    generated = _generate(stage, work, outcome, terms)
    outcome.least |= least_of(stage, work, outcome.weights, terms or NO_RULES)
    outcome.least |= least_of_all(outcome.least, work.participants, outcome.candidates)
    candidates = located.candidates_of(
        stage, outcome.candidates, outcome.weights, least=outcome.least, rules=terms or NO_RULES
    )
    if not candidates:
        return
    candidates = revalued(candidates, work.participants, outcome.weights) if work.participants else candidates
    greedy = greedy_columns(candidates, work.ledger.copy(), changes(candidates, work.participants))
    figures = SolverFigures(incumbent="greedy", candidates=generated, build_s=work.clock() - began_s)
    chosen: Sequence[int] = greedy
    if work.parameters.placement == "ilp":
        chosen, figures = _solve(candidates, greedy, work, outcome, figures, began_s)
    objective = sum(candidates[column].value for column in chosen)
    bound = _bound(candidates, generated, figures.bound, work)
    outcome.solver = replace(figures, objective=objective, bound=bound, gap=solver.relative_gap(objective, bound))
    for column in located.in_turn(chosen, candidates, stage, work.ledger):
        _take(candidates[column], work, outcome)


def _bound(candidates: Sequence[Candidate], generated: int, solved: float | None, work: Work) -> float:
    """The best proven bound: the solver's only speaks for all configurations when none was thinned out."""
    simple = located.knapsack_bound(candidates, work.ledger)
    return simple if solved is None or generated > len(candidates) else min(simple, solved)


def _generate(stage: Sequence[Ranked], work: Work, outcome: Outcome, terms: OfferingRules | None) -> int:
    """Fill `outcome.candidates` in rank order until time is up; how many configurations there were before thinning."""
    idle = idle_offers(work.ledger)
    menus = menus_of(work.ledger)
    enough_s = work.remaining_s * (1 - GENERATION_SHARE)
    most = max(MIN_COLUMNS_PER_JOB, MAX_COLUMNS // max(1, len(stage)))
    generated = 0
    # Whatever time is left, a running job may keep what it has.
    outcome.candidates |= {number: (each.present,) for number, each in work.participants.items()}
    for position, ranked in enumerate(stage):
        if work.remaining_s < enough_s:
            outcome.out_of_time.update(late.job.id for late in stage[position:])
            break
        try:
            running = work.participants.get(ranked.job.id)
            offers = idle if terms is None else terms.offers(ranked)
            offers = offers if running is None else running.own_offers(offers, work.ledger)
            found = configurations.generate_on(
                ranked.job,
                offers,
                work.ledger,
                work.estimator,
                sigma=work.parameters.sigma,
                menus=menus[ranked.job.id in work.ledger.limited],
            )
        except InvalidJob as error:
            outcome.invalid[ranked.job.id] = error
            continue
        generated += len(found)
        thinned = located.thin(found, most, ranked.rank)
        outcome.candidates[ranked.job.id] = tuple(thinned) if running is None else running.offered(thinned)
    return generated


def _solve(
    candidates: Sequence[Candidate],
    greedy: Sequence[int],
    work: Work,
    outcome: Outcome,
    figures: SolverFigures,
    began_s: float,
) -> tuple[Sequence[int], SolverFigures]:
    """The better of the ILP's incumbent and the greedy plan, with the figures of the solve."""
    program = located.build(candidates, work.ledger)
    must_run(program, candidates, outcome.must_start)
    if work.parameters.preemption == "off":
        must_run(program, candidates, work.participants)
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


def together(stages: Sequence[SolverFigures]) -> SolverFigures:
    """The figures of stages solved one after another: sums, and the worst status. The bound is that of the stages."""
    used = [each for each in stages if each.incumbent != "none"]
    if len(used) < 2:
        return used[0] if used else SolverFigures()
    worst = max(
        used, key=lambda each: ("not-needed", "optimal", "gap", "stalled", "time-limit", "failed").index(each.status)
    )
    objective = sum(each.objective or 0.0 for each in used)
    bounds = [each.bound for each in used if each.bound is not None]
    bound = sum(bounds) if len(bounds) == len(used) else None
    return replace(
        worst,
        incumbent="greedy" if any(each.incumbent == "greedy" for each in used) else "ilp",
        candidates=sum(each.candidates for each in used),
        variables=sum(each.variables for each in used),
        constraints=sum(each.constraints for each in used),
        objective=objective,
        bound=bound,
        gap=solver.relative_gap(objective, bound),
        build_s=sum(each.build_s for each in used),
        solve_s=sum(each.solve_s for each in used),
    )


def top_up(stage: Sequence[Ranked], work: Work, outcome: Outcome) -> None:
    """Greedily place whoever of the stage still fits: every addition raises the objective, so an optimum has none."""
    topped_up = 0
    most = _most_idle(work)
    for ranked in stage:
        if work.remaining_s <= 0 or not most:
            break
        job = ranked.job
        if job.id in outcome.chosen or job.id in outcome.invalid:
            continue
        if not any(job.min_gpus <= gpus for name, gpus in most.items() if not job.gpu_types or name in job.gpu_types):
            continue
        if turn.take_turn(ranked, work, outcome) and job.id in outcome.chosen:
            topped_up += 1
            most = _most_idle(work)
    outcome.solver = replace(outcome.solver, topped_up=topped_up)


def _most_idle(work: Work) -> dict[str, int]:
    """The idle GPUs of each type: who needs more cannot be placed, however they lie."""
    idle: dict[str, int] = {}
    for room in work.ledger.rooms.values():
        if room.gpus and room.cores:
            idle[room.node.gpu_type or ""] = idle.get(room.node.gpu_type or "", 0) + len(room.gpus)
    return idle
