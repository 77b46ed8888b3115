"""Section 6: never nothing, never late. Under a clock that moves at each reading, so the tests are the same each time."""

import sys
from contextlib import contextmanager
from itertools import count

import numpy as np
import pytest

from scheduler.model import ClusterState, Tenant
from scheduler.parameters import Parameters
from scheduler.planning.plan import plan
from scheduler.policies import hops, stages
from scheduler.policies.registry import POLICIES
from tests.scheduler.builders import NOW_S, check_invariants, job, make_plan, node, why

LIMIT_S = 2.0


def moving(step_s):
    """A clock that moves at each reading, and how often it was read."""
    readings = count()
    return lambda: next(readings) * step_s


def crowd(nodes):
    """More equal and nearly equal jobs than fit, with CPU jobs among them."""
    cluster = [node(k, 8, idle=8 - k % 3, idle_cores=20 + k % 9, memory_mib=64_000) for k in range(1, nodes + 1)]
    sizes = ((1,), (1, 2, 4), (2, 3), (8,), ())
    jobs = [
        job(k, *sizes[k % 5], tenant=1 + k % 3, wait_s=600 + 1e-3 * (k % 7), cores=1 + k % 4, memory_mib=k % 9 * 1000)
        for k in range(1, 61)
    ]
    return cluster, jobs, [Tenant(1, gpu_quota=9), Tenant(2)]


def assert_cpu_jobs_had_their_turn(made, jobs):
    reasons = why(made)
    assert "not-planned-yet" not in {reasons.get(each.id) for each in jobs if each.is_cpu}
    assert any(each.id not in reasons for each in jobs if each.is_cpu)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("nodes", [6, 20])
@pytest.mark.parametrize("readings", [60, 200])
def test_the_whole_planning_keeps_to_its_limit(policy, nodes, readings):
    """Both formulations (6 and 20 nodes): `readings` is how many looks at the clock the limit allows."""
    cluster, jobs, tenants = crowd(nodes)
    clock = moving(LIMIT_S / readings)
    made = make_plan(cluster, jobs, tenants=tenants, policy=policy, time_limit_s=LIMIT_S, clock=clock)
    assert made.total_s <= 1.1 * LIMIT_S + 2 * LIMIT_S / readings
    assert len(made.decisions) == len(jobs)


@pytest.mark.parametrize("policy", ["hops", "berth", "coda"])
def test_with_no_time_at_all_every_job_still_has_its_reason(policy):
    cluster, jobs, tenants = crowd(20)
    made = make_plan(cluster, jobs, tenants=tenants, policy=policy, time_limit_s=LIMIT_S, clock=moving(LIMIT_S))
    waiting = [decision for decision in made.decisions if decision.placement is None]
    assert len(waiting) == len(jobs)
    at_hand = {"solver-limit", "not-planned-yet", "outside-window", "tenant-quota"}
    assert {str(decision.reason) for decision in waiting} <= at_hand
    assert all(decision.figures["limit_s"] == LIMIT_S for decision in waiting if str(decision.reason) == "solver-limit")


@pytest.mark.parametrize("policy", ["hops", "berth"])
@pytest.mark.parametrize("nodes", [6, 20])
def test_what_is_planned_in_time_has_a_proven_gap(policy, nodes):
    cluster, jobs, tenants = crowd(nodes)
    made = make_plan(cluster, jobs, tenants=tenants, policy=policy, time_limit_s=LIMIT_S, clock=moving(LIMIT_S / 400))
    assert made.solver.gap is not None
    assert made.placements


@pytest.mark.parametrize(("nodes", "readings_tried"), [(6, (30, 50)), (20, (30, 50))])
def test_when_time_ends_before_some_jobs_the_gap_is_that_of_the_others_and_they_are_counted(nodes, readings_tried):
    cluster, jobs, tenants = crowd(nodes)
    cut_short = 0
    for readings in readings_tried:
        clock = moving(LIMIT_S / readings)
        solver = make_plan(cluster, jobs, tenants=tenants, policy="hops", time_limit_s=LIMIT_S, clock=clock).solver
        if solver.objective:
            assert solver.gap is not None
            cut_short += solver.unseen > 0
    assert cut_short


@pytest.mark.parametrize("policy", ["berth", "coda", "hops"])
@pytest.mark.parametrize("nodes", [6, 20])
def test_a_starved_core_places_something_although_checking_and_ordering_used_up_the_limit(policy, nodes):
    """Else nothing was placed planning after planning, with thousands of GPUs idle."""
    cluster, jobs, tenants = crowd(nodes)
    readings = count()

    def clock():
        k = next(readings)
        return 0.0 if k == 0 else 0.97 * LIMIT_S + 1e-6 * k

    made = make_plan(cluster, jobs, tenants=tenants, policy=policy, time_limit_s=LIMIT_S, clock=clock)
    assert len(made.placements) > nodes
    assert_cpu_jobs_had_their_turn(made, jobs)


@pytest.mark.parametrize("policy", ["berth", "coda", "hops"])
def test_cpu_jobs_have_their_turn_beside_a_solver_that_used_up_the_limit(policy, monkeypatch):
    """Seen with 100 000 jobs: none of them started, planning after planning, with a thousand nodes' cores idle."""
    cluster, jobs, tenants = crowd(20)
    late = [0.0]
    for module, name in ((stages, "place_jointly"), (hops, "place_jointly")):
        solve = getattr(module, name)

        def slow(*given, solve=solve, **more):
            staged = solve(*given, **more)
            late[0] = LIMIT_S
            return staged

        monkeypatch.setattr(module, name, slow)
    clock = moving(1e-6)
    made = make_plan(
        cluster, jobs, tenants=tenants, policy=policy, time_limit_s=LIMIT_S, clock=lambda: late[0] + clock()
    )
    assert_cpu_jobs_had_their_turn(made, jobs)


@contextmanager
def worked():
    """Counts what Python does, calls of functions: work that is the same each time, as no second is."""
    done = [0]

    def step(_frame, event, _argument):
        done[0] += event in {"call", "c_call"}

    sys.setprofile(step)
    try:
        yield lambda: done[0]
    finally:
        sys.setprofile(None)


@pytest.mark.slow
@pytest.mark.parametrize("calls", [300_000, 350_000])
def test_a_long_queue_on_a_starved_core_is_not_late_whatever_the_core_gives(calls):
    """2 500 jobs, an amount of memory each. The clock runs by the work that is done: the limit allows so many calls,
    less than a search would like to have.
    """
    cluster = [node(k, 8, idle=8 - k % 3, idle_cores=20 + k % 9, memory_mib=64_000) for k in range(1, 51)]
    sizes = ((1,), (1, 2, 4), (2, 3), (8,), ())
    jobs = [
        job(k, *sizes[k % 5], tenant=1 + k % 3, wait_s=600 + k * 7919 % 5003, cores=1 + k % 4, memory_mib=9 * k + 1)
        for k in range(1, 2501)
    ]
    make_plan(*crowd(20)[:2])  # what is loaded at the first planning is no part of this one
    state, knobs = ClusterState(cluster, jobs), Parameters.from_mapping({"policy": "berth", "time_limit_s": LIMIT_S})
    with worked() as done:
        made = plan(state, NOW_S, knobs, np.random.default_rng(1), lambda: done() * LIMIT_S / calls)
    check_invariants(made, state)
    assert made.total_s <= 1.1 * LIMIT_S
    assert len(made.decisions) == len(jobs)
    assert len(made.placements) > len(cluster)
