"""One stage of the queue placed jointly: which formulation, within which time, and the remarks on it.

The *located* formulation serves clusters of up to `LOCATED_NODES` GPU nodes, the *aggregated* one larger ones (algorithms.md
section 6). Either keeps to the planning's time: a share for making configurations, a share for the solver, the rest for handing
out and explaining; when time is short it is the greedy plan that stands, marked so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.copies import replace
from scheduler.model import Chosen, Ranked, SolverFigures
from scheduler.placement import solver, turn
from scheduler.placement.access import NO_RULES, OfferingRules
from scheduler.placement.aggregated.formulation import solve_aggregated
from scheduler.placement.aggregated.plans import AggregatedPlan, Limits
from scheduler.placement.located_stage import SOLVE_SHARE, place_located
from scheduler.placement.outcome import Classed, DraftPlan, Staged

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from scheduler.placement.work import Work

LOCATED_NODES = 16


def place_jointly(
    stage: Sequence[Ranked],
    work: Work,
    draft: DraftPlan,
    *,
    access_rules: OfferingRules | None = None,
    must_start: AbstractSet[int] = frozenset(),
    solved: int = 0,
) -> Staged:
    """Place the stage together, by the formulation that the cluster's size asks for.

    `access_rules`: the idle resources that each job may use, and the factor on the value of borrowed ones. `must_start`: job ids
    that the solver has to place. `solved`: the number of stages that this planning solved by class before.
    """
    if is_located(work) or work.parameters.placement != "ilp":
        return place_located(stage, work, draft, access_rules=access_rules, must_start=must_start)
    return place_aggregated(stage, work, draft, access_rules=access_rules, solved=solved)


def is_located(work: Work) -> bool:
    """Whether the cluster is small enough for the located formulation."""
    return sum(free.node.gpus_total > 0 for free in work.ledger.free.values()) <= LOCATED_NODES


def place_aggregated(
    stage: Sequence[Ranked],
    work: Work,
    draft: DraftPlan,
    *,
    access_rules: OfferingRules | None = None,
    solved: int = 0,
) -> Staged:
    """Solve by class of node and take what was placed. `solved`: see `place_jointly`."""
    if not stage:
        return Staged()
    rest_s = min((1 - SOLVE_SHARE) * work.parameters.limit_s, (1 - SOLVE_SHARE) * max(0.0, work.remaining_s))
    gap, seed = work.parameters.gap_for(work.ledger.gpus_up), int(work.rng.integers(2**31 - 1))
    own_speeds = work.parameters.own_speeds
    limits = Limits(work.clock, work.deadline_s - rest_s, gap, seed, work.memory.of(solved), own_speeds)
    plan = solve_aggregated(
        stage,
        draft.objective.weights,
        work.ledger,
        work.estimator,
        limits,
        sigma=work.parameters.sigma,
        rules=access_rules or NO_RULES,
        participants={each.job.id: own for each in stage if (own := work.participants.get(each.job.id)) is not None},
    )
    draft.invalid.update(plan.candidates.invalid)
    draft.objective.least.update(plan.candidates.least)
    rows, nodes_of = tuple(plan.candidates.rows), plan.classes.nodes_of
    draft.classed.update(
        {each.job.id: Classed(own, rows, nodes_of) for own in plan.candidates.groups for each in own.members}
    )
    _take(plan, work, draft)
    late = frozenset(ranked.job.id for ranked in plan.candidates.out_of_time)
    return Staged(_figures(plan, gap), late, (plan.left,))


def _take(plan: AggregatedPlan, work: Work, draft: DraftPlan) -> None:
    for placed in plan.placed:
        job, configuration = placed.ranked.job, placed.configuration
        if work.ledger.shortfall(configuration, job.tenant) is None:
            placement = work.ledger.take(configuration, job.tenant)
            weight = draft.objective.weights[job.id]
            draft.chosen[job.id] = Chosen(configuration, placement, placed.gain, weight, placed.candidates)


def _figures(plan: AggregatedPlan, gap: float) -> SolverFigures:
    if not plan.candidates.groups:
        return SolverFigures()
    return SolverFigures(
        formulation="aggregated",
        status=plan.status,
        incumbent=plan.incumbent,
        candidates=sum(len(group.candidates) * len(group.members) for group in plan.candidates.groups),
        variables=plan.variables,
        constraints=plan.constraints,
        objective=plan.objective,
        bound=plan.bound,
        gap=solver.relative_gap(plan.objective, plan.bound),
        gap_allowed=gap,
        build_s=plan.build_s,
        solve_s=plan.solve_s,
    )


def all_of(stages: Sequence[Staged]) -> Staged:
    """The outcome of stages placed one after another, together."""
    return Staged(
        together([each.figures for each in stages]),
        frozenset().union(*(each.out_of_time for each in stages)),
        tuple(one for each in stages for one in each.left),
    )


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


def top_up(stage: Sequence[Ranked], work: Work, draft: DraftPlan) -> int:
    """Greedily place whoever of the stage still fits, and count them: every addition raises the objective, so an optimum
    has none.
    """
    topped_up = 0
    most = _most_idle(work)
    for ranked in stage:
        if work.remaining_s <= 0 or not most:
            break
        job = ranked.job
        if job.id in draft.chosen or job.id in draft.invalid:
            continue
        if not any(job.min_gpus <= gpus and job.may_use(name) for name, gpus in most.items()):
            continue
        if turn.take_turn(ranked, work, draft) and job.id in draft.chosen:
            topped_up += 1
            most = _most_idle(work)
    return topped_up


def _most_idle(work: Work) -> dict[str, int]:
    """The idle GPUs of each type: a job that needs more cannot be placed, however they lie."""
    idle: dict[str, int] = {}
    for free in work.ledger.free.values():
        if free.gpus and free.cores:
            idle[free.node.gpu_type or ""] = idle.get(free.node.gpu_type or "", 0) + len(free.gpus)
    return idle
