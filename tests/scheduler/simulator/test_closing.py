"""Nodes of a simulated cluster that end, as allocations do (decision 0271)."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.policies.registry import POLICIES
from scheduler.simulator.rivals import RIVALS
from tests.scheduler.builders import node
from tests.scheduler.simulator.cases import by_job, run, traced

EVERY = sorted({*POLICIES, *RIVALS})
KNOWN = {"expected_duration_s": 600.0}


def test_who_ends_before_the_node_runs_and_who_would_not_waits_for_another():
    jobs = [traced(1, 1, work=600.0, **KNOWN), traced(2, 1, at_s=60.0, work=600.0, **KNOWN)]
    made = by_job(run(jobs, [node(1, closes_s=690.0)]))
    assert (made[1].state, made[1].ended_s) == ("COMPLETED", 600.0)
    assert (made[2].state, made[2].started_s) == ("UNFINISHED", None)


def test_a_job_that_saves_goes_on_elsewhere_and_counts_no_restart():
    nodes = [node(1, 1, closes_s=900.0), node(2, 1, idle=1)]
    jobs = [
        traced(1, 1, work=2000.0, expected_duration_s=1200.0),
        traced(2, 1, at_s=30.0, work=3000.0, movable=True, expected_duration_s=3000.0),
    ]
    made = by_job(run(jobs, nodes, restart_s=60.0))
    assert (made[1].started_s, made[1].ended_s) == (0.0, 2000.0)
    assert (made[2].started_s, made[2].restarts) == (30.0, 0)
    assert made[2].ended_s == 2000.0 + 60.0 + (3000.0 - 870.0)


def test_a_job_that_saves_nothing_starts_anew_where_it_ran_longer_than_it_said():
    nodes = [node(1, 1, closes_s=900.0), node(2, 1)]
    jobs = [traced(1, 1, work=1000.0), traced(2, 1, at_s=30.0, work=1500.0, **KNOWN)]
    made = by_job(run(jobs, nodes, restart_s=0.0))
    assert made[1].ended_s == 1000.0  # nobody said how long it is: it went where nothing ends
    assert (made[2].started_s, made[2].state, made[2].ended_s) == (30.0, "COMPLETED", 1000.0 + 1500.0)


def test_without_shared_storage_a_checkpoint_on_the_nodes_own_disk_is_lost_with_it():
    for domain, ends_s in (("", 1200.0 + 1500.0), ("nfs", 1200.0 + 1500.0 - 870.0)):
        nodes = [node(1, 1, closes_s=900.0, storage_domain=domain), node(2, 1, storage_domain=domain)]
        jobs = [
            traced(1, 1, at_s=30.0, work=1500.0, movable=True, **KNOWN),
            traced(2, 1, work=1200.0, expected_duration_s=1200.0),
        ]
        made = by_job(run(jobs, nodes, restart_s=0.0, shared_storage=False))
        assert made[1].ended_s == ends_s


@settings(deadline=None)
@given(
    st.sampled_from(EVERY),
    st.lists(st.sampled_from((400.0, 1000.0, 3000.0, math.inf)), min_size=1, max_size=3),
    st.lists(
        st.tuples(
            st.sampled_from(((1,), (2,), (1, 2, 4), (6,), ())),
            st.sampled_from((0.0, 45.0, 500.0, 1500.0)),
            st.sampled_from((200.0, 900.0, 4000.0)),
            st.sampled_from((None, 300.0, 1200.0)),
            st.booleans(),
        ),
        min_size=1,
        max_size=7,
    ),
)
def test_every_policy_plans_on_what_is_left_as_the_service_would(policy, ends, asked):
    """`run` compares each planning with that of the service, and its starts with the idle resources."""
    nodes = [node(number, 4, closes_s=end_s) for number, end_s in enumerate(ends, 1)]
    jobs = [
        traced(number, *sizes, at_s=at_s, work=work, expected_duration_s=said_s, movable=movable, tenant=1 + number % 2)
        for number, (sizes, at_s, work, said_s, movable) in enumerate(asked, 1)
    ]
    made = run(jobs, nodes, policy=policy, knobs={"replan_s": 120.0})
    last_s = max(ends)
    assert all(each.ended_s <= last_s for each in made.jobs if each.ended_s is not None)
    assert last_s < math.inf or all(each.state == "COMPLETED" for each in made.jobs if each.requirement != (6,))


@pytest.mark.parametrize("policy", EVERY)
def test_an_end_that_nobody_meets_changes_no_run(policy):
    jobs = [traced(number, 1 + number % 2, at_s=40.0 * number, work=300.0, **KNOWN) for number in range(1, 9)]
    runs = [run(jobs, [node(1, 4), node(2, 2, closes_s=end_s)], policy=policy).jobs for end_s in (math.inf, 1e6)]
    assert runs[0] == runs[1]
