"""Nodes with GPUs of several types in simulations: the service's own dealing, by the same function."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.intake.bays import split
from scheduler.policies.registry import POLICIES
from tests.scheduler.builders import node
from tests.scheduler.simulator.cases import by_job, run, traced

MIXED = split(node(1, 6, cores=12, memory_mib=6000), [("a100", 4), ("t4", 2)])
T4 = frozenset({"t4"})


def test_jobs_of_both_types_run_at_once_on_one_node():
    made = by_job(run([traced(1, 4, gpu_types=frozenset({"a100"})), traced(2, 2, gpu_types=T4)], MIXED))
    assert [(each.started_s, each.state) for each in made.values()] == [(0.0, "COMPLETED")] * 2


@pytest.mark.parametrize(("policy", "first_s"), [("fifo", 10.0), ("berth", 10.0)])
def test_memory_beside_the_other_type_is_handed_out(policy, first_s):
    """By idle GPUs the T4's part is a third of 6 000 MiB."""
    made = by_job(run([traced(1, 1, at_s=first_s, gpu_types=T4, memory_mib=5000)], MIXED, policy=policy, tick_s=0))
    assert (made[1].started_s, made[1].state) == (first_s, "COMPLETED")


def test_a_cpu_job_gets_the_cores_that_no_part_has():
    made = by_job(run([traced(1, cores=11)], MIXED))
    assert (made[1].started_s, made[1].state) == (0.0, "COMPLETED")


def test_who_can_never_run_is_told_by_the_whole_node():
    made = by_job(run([traced(1, cores=13), traced(2, 3, gpu_types=T4), traced(3, 6)], MIXED))
    assert {each.state for each in made.values()} == {"UNFINISHED"}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_job_that_may_not_start_does_not_take_a_nodes_memory_from_one_that_may(policy):
    """All cores are reserved for GPU jobs under some, so the CPU job waits; both do not fit the node at once."""
    nodes = [*MIXED, node(2, 1, cores=2)]
    cpu, gpu = traced(1, cores=1, memory_mib=4828, tenant=2), traced(2, 1, gpu_types=T4, memory_mib=1173, tenant=1)
    made = by_job(run([cpu, gpu], nodes, policy=policy, until_s=1e5))
    assert made[2].state == "COMPLETED"
    assert policy in {"coda", "berth"} or made[1].state == "COMPLETED"


JOBS = st.lists(
    st.tuples(
        st.sampled_from([(0,), (1,), (2,), (1, 2), (4,)]),
        st.sampled_from([frozenset(), T4, frozenset({"a100"})]),
        st.integers(1, 8),
        st.integers(0, 5000),
        st.floats(0, 900),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=20, deadline=None)
@given(JOBS, st.sampled_from([*POLICIES]), st.booleans())
def test_no_core_is_handed_out_twice_and_who_fits_the_node_runs(asked, policy, alone):
    """`run` checks each plan, and that a planning from a snapshot is the same; here: that nothing is lost or left waiting."""
    jobs = [
        traced(
            number,
            *sizes,
            gpu_types=types if sizes != (0,) else frozenset(),
            cores=cores,
            memory_mib=memory,
            at_s=at_s,
            movable=len(sizes) > 1,
            tenant=1 + number % 2,
        )
        for number, (sizes, types, cores, memory, at_s) in enumerate(asked, start=1)
        if not (sizes == (4,) and types == T4)
    ]
    more = {"single_account": True, "trusts_tenants": False} if alone else {}
    nodes = [*split(node(1, 6, cores=12, memory_mib=6000, **more), [("a100", 4), ("t4", 2)]), node(2, 1, cores=2)]
    made = run(jobs, nodes, policy=policy, until_s=1e6)
    waiting = {each.name for each in made.jobs if each.state == "UNFINISHED"}
    by_name = {each.name: each for each in jobs}
    for name in waiting:
        assert by_name[name].job.is_cpu, f"{policy}: {by_name[name].job}"  # reserved cores are not for CPU jobs
