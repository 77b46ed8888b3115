"""A type's links are measured on idle GPUs, within the budget of profiles (algorithms.md section 2, *by themselves*)."""

from dataclasses import replace

import numpy as np
import pytest

from scheduler.model import ClusterState, LinkWish
from scheduler.parameters import Parameters
from scheduler.planning.plan import plan
from tests.scheduler.builders import NOW_S, check_feasible, job, node, running, ticking, where

WITHIN, BETWEEN = LinkWish("a100", between=False, tenant=9), LinkWish("a100", between=True, tenant=9)


def planned(nodes, jobs=(), wishes=(WITHIN, BETWEEN), live=(), **knobs):
    state = ClusterState(nodes, list(jobs), running=list(live), links_wanted=wishes)
    made = plan(state, NOW_S, Parameters(**knobs), np.random.default_rng(1), ticking())
    check_feasible(made, state)
    return made


def probes(made):
    return [(order.wish.between, [(piece.node, len(piece.gpus)) for piece in order.pieces]) for order in made.probes]


def test_two_gpus_of_the_node_with_the_fewest_idle_that_has_them():
    made = planned([node(1, gpus=8), node(2, gpus=4), node(3, gpus=1)])
    assert probes(made) == [(False, [(2, 2)])], "one at a time"


def test_one_gpu_on_each_of_two_nodes():
    assert probes(planned([node(1, gpus=8), node(2, gpus=4), node(3, gpus=4)], wishes=(BETWEEN,))) == [
        (True, [(2, 1), (3, 1)])
    ]
    assert probes(planned([node(1, gpus=8)], wishes=(BETWEEN,))) == []


def test_nothing_else_is_placed_on_them_and_nobody_waits_for_them():
    made = planned([node(1, gpus=4), node(2, gpus=2)], [job(1, 4), job(2, 2)], wishes=(WITHIN,))
    assert probes(made) == [(False, [(2, 2)])]
    assert list(where(made)) == [1]


@pytest.mark.parametrize(
    "given",
    [
        {"nodes": [node(1, gpus=3)]},
        {"nodes": [node(1, gpus=8)], "profile_share": 0.0},
        {"nodes": [node(1, gpus=8)], "wishes": ()},
        {"nodes": [node(1, gpus=8)], "policy": "fifo"},
        {"nodes": [node(1, gpus=8)], "jobs": [job(1, 16, wait_s=7200.0, age_s=3600.0), job(2, 8, wait_s=7200.0)]},
        {"nodes": [node(1, gpus=8, cores=1)]},
        {"nodes": [replace(node(1, gpus=8), schedulable=False)]},
    ],
    ids=["few idle", "no budget", "nothing wished", "policy without speeds", "a starving job", "no cores", "drained"],
)
def test_no_probe(given):
    assert probes(planned(**given)) == []


def test_a_node_of_one_account_with_another_tenants_job_is_left_alone():
    exclusive = replace(node(1, gpus=8, idle=4), single_account=True, trusts_tenants=False, tenants=frozenset({1}))
    live = running(7, 1, 1, gpus=4)
    assert probes(planned([exclusive], live=[live], wishes=(WITHIN,))) == []
