"""Memory between plannings (algorithms.md section 6): with it and without it plans are as good; losing it costs time alone."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings

from research.workloads.queues import instance_draw
from scheduler.model import ClusterState
from scheduler.parameters import Parameters
from scheduler.placement.aggregated import formulation
from scheduler.placement.aggregated.formulation import solve_aggregated
from scheduler.placement.aggregated.memory import SHARPLY, Solved
from scheduler.placement.aggregated.plans import Limits
from scheduler.placement.ledger import Ledger
from scheduler.placement.work import NOTHING
from scheduler.planning.plan import plan, plan_on
from tests.scheduler.builders import job, node, ticking
from tests.scheduler.placement.test_aggregated import check, clusters, stage_of


def answered(nodes, jobs, estimator, tenants, memory=None):
    queue, weights = stage_of(jobs)
    ledger = Ledger(nodes, tenants, ())
    limits = Limits(ticking(), 60.0, 0.0, 1, memory or Solved())
    answer = solve_aggregated(queue, weights, ledger, estimator, limits)
    check(answer, ledger, weights)
    return answer


@settings(max_examples=10, deadline=None)
@given(clusters(spread=True), clusters(spread=True))
def test_the_memory_of_any_planning_leads_to_the_same_objective(given_, other):
    """Memories of the same cluster, of the same without a node, and of another one altogether."""
    cold = answered(*given_)
    nodes, *more = given_
    fewer = answered(nodes[1:], *more) if len(nodes) > 1 else cold
    for left in (cold.left, fewer.left, answered(*other).left):
        assert answered(*given_, left).objective == pytest.approx(cold.objective, abs=1e-6)


def crowded():
    nodes = [node(k, 4 + 4 * (k % 2), gpu_type="ab"[k % 2], idle_cores=6 + k % 7) for k in range(1, 31)]
    sizes = ((1, 2), (2, 4), (1,), (4,))
    jobs = [job(k, *sizes[k % 4], tenant=1 + k % 3, cores=1 + k % 3, wait_s=600 + 7 * k) for k in range(1, 121)]
    return ClusterState(tuple(nodes), tuple(jobs), gpu_speeds={"a": 1.0, "b": 1.7})


@cache
def first_planned():
    """The state, its first planning, and what that leaves."""
    state = crowded()
    return state, *planned(NOTHING, state)


def planned(memory, state):
    return plan_on(memory, state, 0.0, Parameters(), np.random.default_rng(1), ticking())


@pytest.mark.slow
def test_a_planning_leaves_its_prices_and_columns_to_the_next_and_the_plan_is_as_good():
    state, first, memory = first_planned()
    assert first.placements == plan(state, 0.0, Parameters(), np.random.default_rng(1), ticking()).placements
    assert any(each.prices for each in memory.stages)
    assert any(each.cuts for each in memory.stages)
    later = replace(state, jobs=state.jobs[5:])
    warm, _ = planned(memory, later)
    cold, _ = planned(NOTHING, later)
    assert warm.solver.objective == pytest.approx(cold.solver.objective, rel=cold.solver.gap_allowed + 1e-6)
    assert planned(memory, later)[0].placements == warm.placements  # pure: the same memory, the same plan


def test_patterns_of_classes_that_are_gone_are_passed_over():
    state, _, memory = first_planned()
    gone = replace(state, nodes=tuple(replace(each, gpu_type="b") for each in state.nodes))
    assert planned(memory, gone)[0].placements


def instance_answered(memory, instance):
    queue, weights = stage_of(instance.jobs)
    ledger = Ledger(instance.nodes, (), ())
    return solve_aggregated(queue, weights, ledger, instance.estimator, Limits(ticking(), 1e9, 0.02, 1, memory))


@pytest.mark.slow
def test_the_plan_by_prices_is_nearer_to_the_best_with_what_the_last_columns_priced(monkeypatch):
    """Ten thousand GPUs within half a second: 3 % below the converged plan without, 1 % with it."""
    instance = instance_draw(gpus=100, jobs=100, seed=2, workload="mixed")
    converged = instance_answered(Solved(), instance)
    assert converged.left.sharper
    monkeypatch.setattr(formulation, "improved", lambda _maker, start, *_: start)
    cold, warm = instance_answered(Solved(), instance), instance_answered(converged.left, instance)
    assert warm.objective > cold.objective
    assert warm.bound == pytest.approx(converged.bound, rel=0.05)
    assert warm.left.sharper == converged.left.sharper, "handed on by a planning that had no time for columns"
    assert warm.left.prices


def test_prices_of_rows_that_are_mostly_new_are_taken_as_they_are():
    pieces = np.array([1.0, 2.0, 3.0])
    known = Solved(sharper={"a": 0.5, "b": 0.9})
    assert known.sharpened(pieces, ("a", "x", "b")).tolist() == pytest.approx(
        [1.0 - 0.5 * SHARPLY, 2.0, 3.0 - 0.3 * SHARPLY]
    )
    assert known.sharpened(pieces, ("a", "x", "y")).tolist() == pieces.tolist()
