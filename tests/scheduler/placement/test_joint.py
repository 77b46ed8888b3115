"""How a planning chooses and calls a formulation, and the knobs it hands down (algorithms.md sections 5 and 6)."""

import pytest

from scheduler.estimator.measured import signature
from scheduler.model.speeds import Cell, CellKey, Knowledge
from scheduler.policies.registry import POLICIES
from tests.scheduler.builders import job, make_plan, node, where


def planned(nodes, jobs, knowledge, **knobs):
    return make_plan(nodes, jobs, knowledge=knowledge, now_s=0.0, **knobs)


def sensitive(asked, rho):
    """Measured on one GPU and spread over two nodes: 1.3 times slower per GPU there."""
    name = signature(asked)
    cells = {
        CellKey(name, "a100", gpus=1): Cell(5, rho, 0.1),
        CellKey(name, "a100", gpus=2, nodes=2): Cell(5, 1.0, 0.1),
    }
    return Knowledge(cells)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("nodes", [2, 20])
@pytest.mark.parametrize("placement", ["ilp", "greedy"])
def test_sigma_decides_who_may_be_spread(policy, nodes, placement):
    """Section 5: rho = 1.3 is low under the default of 1.4 and high under 1.2. On 20 nodes by class."""
    asked = job(1, 2, gpu_types=frozenset({"a100"}))
    cluster = [node(number, 2, idle=1 if number <= 2 else 0) for number in range(1, nodes + 1)]
    common = {"policy": policy, "placement": placement, "arrays": "off"}
    spread = planned(cluster, [asked], sensitive(asked, 1.3), **common)
    assert where(spread) == {1: {1: 1, 2: 1}}
    assert where(planned(cluster, [asked], sensitive(asked, 1.3), sigma=1.2, **common)) == {}


@pytest.mark.parametrize("policy", ["hops", "berth"])
def test_above_16_gpu_nodes_the_window_is_placed_by_class_with_arrays_too(policy):
    cluster = [node(number, 4) for number in range(1, 18)]
    jobs = [job(number, 1, 2, tenant=number % 3, movable=number % 2 == 0) for number in range(1, 9)]
    for nodes, formulation in ((cluster, "aggregated"), (cluster[:16], "located")):
        assert planned(nodes, jobs, Knowledge(), policy=policy).solver.formulation == formulation
