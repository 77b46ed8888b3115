"""Jobs go by their own measured speed on a single server, on clusters of every size (algorithms.md section 6)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.estimator.estimator import Estimator
from scheduler.estimator.layers import EntityLayer
from scheduler.estimator.measured import by_node, signature
from scheduler.intake.bays import split
from scheduler.model import bay_id
from scheduler.model.speeds import Cell, CellKey, Knowledge
from scheduler.placement.access import EVERYTHING, NO_RULES
from scheduler.placement.core_counts import per_gpu, share_of_speed
from scheduler.placement.idle_nodes import IdleNodes
from scheduler.placement.ledger import Ledger
from tests.scheduler.builders import job, make_plan, node, where
from tests.scheduler.placement.test_aggregated import Known, aggregated, located_optimum

SIZES = [8, 16, 17, 24, 64, 1000]
POLICIES = ["hops", "berth"]


def cells_of(asked, on, *, gpu_type="a100", usual=1.0, gpus=1):
    """The type's cell, and one on each node of `on`: its speed."""
    name = signature(asked)
    cells = {CellKey(name, number, gpus=gpus): Cell(5, speed) for number, speed in on.items()}
    return cells | {CellKey(name, gpu_type, gpus=gpus): Cell(5, usual)}


def where_it_goes(policy, nodes, asked, on, **more):
    made = make_plan(nodes, [asked], knowledge=Knowledge(cells_of(asked, on, **more)), policy=policy)
    return where(made)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("nodes", SIZES)
@pytest.mark.parametrize("usual", [1.0, 0.5])
def test_a_model_that_is_half_as_fast_on_all_nodes_but_one_goes_there(policy, nodes, usual):
    """The mean of its type may say either; nothing of it was measured on the right node in the one case."""
    asked, right = job(1, 1, model_label="m", movable=True), 3 * nodes // 4
    on = {number: 0.5 for number in range(1, nodes + 1) if number != right} | ({right: 1.0} if usual == 0.5 else {})
    assert where_it_goes(policy, [node(k) for k in range(1, nodes + 1)], asked, on, usual=usual) == {1: {right: 1}}


RATIOS = (0.5, 0.75, 1.0, 1.4, 2.0)


@st.composite
def clusters(draw, *, spread=False):
    """More nodes than the located formulation serves, few of them idle, and jobs of two models with speeds of their own."""
    nodes = [
        node(
            number,
            4,
            gpu_type=draw(st.sampled_from("aab")),
            cores=12,
            idle=draw(st.sampled_from((0, 0, 0, 0, 1, 2, 4))),
            idle_cores=draw(st.sampled_from((3, 12))),
            speed=draw(st.sampled_from((1.0, 1.0, 0.8))),
        )
        for number in range(1, draw(st.integers(17, 64)) + 1)
    ]
    rho = 1.1 if spread else 9.0
    jobs = []
    for number in range(1, draw(st.integers(1, 7)) + 1):
        sizes = sorted(draw(st.sets(st.integers(1, 6 if spread else 4), min_size=1, max_size=3)))
        model, cores, wait_s = draw(st.sampled_from("mn")), draw(st.integers(1, 4)), 60.0 * draw(st.integers(1, 5))
        jobs.append(job(number, *sizes, cores=cores, model_label=model, wait_s=wait_s))
    usual = Known(dict.fromkeys(range(1, 8), 1.0), dict.fromkeys(range(1, 8), rho))
    idle = [each for each in nodes if each.idle_gpus] or nodes
    cells = {}
    for asked in {signature(each): each for each in jobs}.values():
        for size, over in ((1, None), (2, None), (4, None), *(((4, 2),) if spread else ())):
            for host in draw(st.lists(st.sampled_from(idle), unique_by=lambda each: each.id)):
                speed = usual.per_gpu(asked, host, size, over or 1).per_gpu * host.speed * draw(st.sampled_from(RATIOS))
                cells[CellKey(signature(asked), host.id, gpus=size, nodes=over)] = Cell(5, speed)
    return nodes, jobs, Estimator((EntityLayer(Knowledge(cells), by_node(cells)), usual))


@settings(max_examples=12, deadline=None)
@given(clusters())
def test_with_speeds_of_single_servers_both_optima_are_equal(given_):
    """As many groups may be kept apart as there are nodes."""
    answer = aggregated(*given_, own_speeds=64)
    assert answer.objective == pytest.approx(located_optimum(*given_), abs=1e-6)


@settings(max_examples=12, deadline=None)
@given(clusters(spread=True))
def test_with_speeds_of_single_servers_and_spread_placements_aggregated_is_at_least_located(given_):
    answer = aggregated(*given_, own_speeds=64)
    assert answer.objective >= located_optimum(*given_) - 1e-6


@settings(max_examples=6, deadline=None)
@given(clusters(), st.integers(0, 3))
def test_with_few_groups_plans_are_feasible_and_told_at_the_speeds_of_the_nodes_that_they_use(given_, groups):
    nodes, jobs, estimator = given_
    for placed in aggregated(nodes, jobs, estimator, own_speeds=groups).placed:
        (share,), asked = placed.configuration.shares, placed.ranked.job
        host = nodes[share.node - 1]
        speed, _ = per_gpu(estimator, asked, host, share.gpus, 1)
        pace = share_of_speed(share.cores, asked.cores, share.gpus)
        assert placed.configuration.throughput == pytest.approx(speed * share.gpus * pace)


def test_within_a_class_a_job_goes_by_its_own_cells_where_no_group_is_left():
    """One group may be kept apart: it goes to the job that weighs more. The other still gets its node."""
    cluster = [node(k) for k in range(1, 21)]
    jobs = [job(1, 1, model_label="m", wait_s=900.0), job(2, 1, model_label="n")]
    cells = cells_of(jobs[0], {9: 2.0}) | cells_of(jobs[1], {13: 2.0})
    made = make_plan(cluster, jobs, knowledge=Knowledge(cells), own_speeds=1)
    assert where(made) == {1: {9: 1}, 2: {13: 1}}


def test_a_difference_of_up_to_five_percent_is_none():
    on = {7: 1.05, 8: 0.951}
    assert where_it_goes("hops", [node(k) for k in range(1, 21)], job(1, 1, model_label="m"), on) == {1: {1: 1}}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_bay_of_a_mixed_server_has_speeds_of_its_own_too(policy):
    bays = [bay for k in range(1, 21) for bay in split(node(k), [("a100", 4), ("l4", 4)])]
    asked, right = job(1, 1, model_label="m", movable=True, gpu_types=frozenset({"l4"})), bay_id(15, 1)
    on = {bay_id(k, 1): 0.5 for k in range(1, 21) if k != 15}
    assert where_it_goes(policy, bays, asked, on, gpu_type="l4") == {1: {right: 1}}


def test_the_sweep_looks_at_nodes_on_which_the_job_has_speeds_of_its_own():
    """Nodes with a speed of its own are looked at beside the tightest of the others."""
    cluster = [node(k, 1) for k in range(1, 21)]
    jobs = [job(1, 1, wait_s=900.0), job(2, 1, model_label="m")]
    nodes = IdleNodes(Ledger(cluster, (), ()), NO_RULES)
    (offer,) = nodes.best_fit(jobs[0], EVERYTHING, spreads=False)
    found = nodes.best_fit(jobs[1], EVERYTHING, spreads=False, cells={1: 0.5, 17: 2.0})
    assert (offer.node.id, [each.node.id for each in found]) == (1, [1, 2, 17])


@pytest.mark.parametrize("nodes", [4, 20])
def test_what_is_spread_stays_within_the_nearest_level_of_the_network(nodes):
    """By id the first two nodes would do; two of one rack are nearer, and of one row nearer than of two."""
    racks = {1: ("hall", "row 1", "rack 1"), 2: ("hall", "row 2", "rack 2"), 3: ("hall", "row 2", "rack 3")}
    cluster = [node(k, 2, idle=2 if k < 4 else 0, place=racks.get(k, ("hall",))) for k in range(1, nodes + 1)]
    asked = job(1, 4)
    cells = {CellKey(signature(asked), "a100", gpus=4, nodes=2): Cell(5, 1.0)}
    assert where(make_plan(cluster, [asked], knowledge=Knowledge(cells))) == {1: {2: 2, 3: 2}}
