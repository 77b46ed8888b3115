"""Clusters with MIG instances in simulations: the same planning, so no job ever has two of them, and a slice is that slice."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.intake.bays import split
from scheduler.model.placements import share_of_gpu
from scheduler.policies.registry import POLICIES
from scheduler.simulator.world.laws import Scaled
from tests.scheduler.builders import node
from tests.scheduler.simulator.cases import by_job, run, traced

WHOLE, SMALL = "a100", "a100 MIG 1g.10gb"
SPEEDS = {SMALL: share_of_gpu(SMALL)}


def cut(number, whole, small, **more):
    """A node with so many whole GPUs and so many instances."""
    kinds = [(name, count) for name, count in ((WHOLE, whole), (SMALL, small)) if count]
    made = node(number, whole + small, gpu_type=kinds[0][0], **{"cores": 32, **more})
    return split(made, kinds) if len(kinds) > 1 else [made]


@pytest.mark.parametrize("policy", POLICIES)
def test_whole_gpus_first_then_instances_and_two_are_never_instances(policy):
    jobs = [
        traced(1, 1, law=Scaled(1, 1.0, SPEEDS)),
        traced(2, 1, law=Scaled(1, 1.0, SPEEDS)),
        traced(3, 1, gpu_types=frozenset({SMALL}), law=Scaled(1, 1.0, SPEEDS)),
        traced(4, 2, at_s=60.0),
    ]
    nodes = [*cut(1, 1, 7), node(2, 7, gpu_type=SMALL)]
    made = by_job(run(jobs, nodes, policy=policy, gpu_speeds=SPEEDS, until_s=1e6))
    assert [made[k].state for k in (1, 2, 3, 4)] == ["COMPLETED"] * 3 + ["UNFINISHED"]
    assert sorted(round(made[k].ran_s) for k in (1, 2)) == [600, 4200], (
        "the second on an instance, at its part of the speed"
    )
    assert round(made[3].ran_s) == 4200


@pytest.mark.parametrize("policy", POLICIES)
def test_a_cluster_of_instances_alone_runs_jobs_of_one(policy):
    made = by_job(run([traced(k, 1) for k in range(1, 9)], [node(1, 7, gpu_type=SMALL)], policy=policy, tick_s=0))
    assert {each.state for each in made.values()} == {"COMPLETED"}
    assert sorted(each.started_s for each in made.values()) == [0.0] * 7 + [600.0]


JOBS = st.lists(
    st.tuples(
        st.sampled_from([(0,), (1,), (2,), (1, 2), (1, 2, 4)]),
        st.sampled_from([frozenset(), frozenset({SMALL}), frozenset({WHOLE}), frozenset({SMALL, WHOLE})]),
        st.integers(1, 4),
        st.floats(0, 900),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=25, deadline=None)
@given(JOBS, st.sampled_from([*POLICIES]))
def test_no_attempt_has_two_instances_and_who_could_run_does(asked, policy):
    """`run` checks each plan, and that a planning from a snapshot is the same."""
    jobs = [
        traced(
            number,
            *sizes,
            gpu_types=types if sizes != (0,) else frozenset(),
            cores=cores,
            at_s=at_s,
            movable=len(sizes) > 1,
        )
        for number, (sizes, types, cores, at_s) in enumerate(asked, start=1)
        if not (sizes == (2,) and types == {SMALL})
    ]
    nodes = [*cut(1, 2, 3), node(2, 7, gpu_type=SMALL, cores=32)]
    made = run(jobs, nodes, policy=policy, until_s=1e6, gpu_speeds=SPEEDS)
    assert not [each for each in made.jobs if each.state != "COMPLETED" and each.requirement != (0,)]
    slices = {each.name for each in jobs if each.job.gpu_types == {SMALL}}
    assert all(each.gpus_mean == pytest.approx(1) for each in made.jobs if each.name in slices)
