"""CPU jobs: best fit, away from nodes whose GPUs are idle and short of cores (section 7, step 8)."""

import pytest

from tests.scheduler.builders import job, make_plan, node, where, why

CPU = pytest.mark.parametrize("policy", ["fifo", "hops"])


@CPU
def test_best_fit_takes_the_node_that_is_left_fullest(policy):
    nodes = [node(1, 0, cores=16), node(2, 0, cores=8), node(3, 0, cores=32)]
    assert where(make_plan(nodes, [job(1, cores=6)], policy=policy)) == {1: {2: 0}}


@CPU
def test_equal_cores_are_decided_by_memory(policy):
    nodes = [node(1, 0, cores=8, memory_mib=9000), node(2, 0, cores=8, memory_mib=5000)]
    assert where(make_plan(nodes, [job(1, cores=6, memory_mib=4000)], policy=policy)) == {1: {2: 0}}


@CPU
def test_idle_gpus_keep_their_cores_while_another_node_has_room(policy):
    starved, busy, roomy = node(1, 4, cores=16), node(2, 4, cores=64, idle=0), node(3, 4, cores=64)
    assert where(make_plan([starved, busy, roomy], [job(1, cores=8)], policy=policy)) == {1: {2: 0}}
    assert where(make_plan([starved, roomy], [job(1, cores=8)], policy=policy)) == {1: {3: 0}}
    assert where(make_plan([starved], [job(1, cores=8)], policy=policy)) == {1: {1: 0}}


def test_cpu_jobs_pass_each_other_under_hops_and_not_under_fifo():
    nodes, jobs = [node(1, 0, cores=4)], [job(1, cores=3), job(2, cores=2), job(3, cores=1)]
    assert where(make_plan(nodes, jobs, policy="hops")) == {1: {1: 0}, 3: {1: 0}}
    made = make_plan(nodes, jobs, policy="fifo")
    assert where(made) == {1: {1: 0}}
    assert why(made) == {2: "lost-to-higher-priority", 3: "outside-window"}


def test_cpu_jobs_do_not_count_in_the_gpu_window():
    jobs = [job(1, cores=1), job(2, cores=1), job(3, 2)]
    assert where(make_plan([node(1, 2)], jobs, policy="hops")) == {1: {1: 0}, 2: {1: 0}, 3: {1: 2}}


def test_concrete_cores_are_the_lowest_idle_ones():
    made = make_plan([node(1, 0, cores=8, idle_cores=5)], [job(1, cores=2), job(2, cores=1)])
    assert [piece.cores for placement in made.placements for piece in placement.pieces] == [(3, 4), (5,)]
