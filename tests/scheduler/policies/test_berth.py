"""Policy `berth`: DRF and LRF joined (algorithms.md section 4), and the examples that would go wrong otherwise."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.explaining.sentences import sentence
from scheduler.model import ClusterState, Promise, Promised, Running, Share, Tenant
from scheduler.parameters import Parameters
from scheduler.planning.plan import plan
from tests.scheduler.builders import (
    NOW_S,
    check_feasible,
    decisions_of,
    job,
    make_plan,
    node,
    running,
    ticking,
    where,
    why,
)

ONE_ARRAY = {"gain": "linear", "policy": "berth", "arrays": "off"}


@st.composite
def one_tenants(draw):
    """Nodes partly busy, and one tenant's jobs of every kind."""
    nodes = [
        node(number, gpus := draw(st.sampled_from([1, 2, 4, 8])), idle=draw(st.integers(0, gpus)), idle_cores=20)
        for number in range(1, draw(st.integers(1, 4)) + 1)
    ]
    sizes = st.sampled_from([(0,), (1,), (2,), (1, 2), (1, 2, 4), (4,), (8,), (6, 12)])
    jobs = [
        job(number, *draw(sizes), cores=draw(st.integers(1, 6)), wait_s=draw(st.floats(0, 9000)))
        for number in range(1, draw(st.integers(0, 12)) + 1)
    ]
    return nodes, jobs


@settings(max_examples=16, deadline=None)
@given(one_tenants(), st.none() | st.integers(0, 9), st.sampled_from(["ilp", "greedy"]))
def test_one_tenant_and_one_array_is_exactly_hops(cluster, quota, placement):
    nodes, jobs = cluster
    if placement == "greedy":  # hops cuts the core counts on offer once a planning, berth at each job's turn
        jobs = [replace(each, cores=1) for each in jobs]
    common = {"tenants": [Tenant(1, gpu_quota=quota)], "placement": placement}
    hops = make_plan(nodes, jobs, policy="hops", **common)
    ours = make_plan(nodes, jobs, reserve_lr=None, sweep="off", **ONE_ARRAY, **common)
    assert ours.placements == hops.placements
    assert (ours.window_jobs, ours.window_gpus, why(ours)) == (hops.window_jobs, hops.window_gpus, why(hops))
    if placement == "ilp":
        assert ours.solver == hops.solver


def test_who_holds_90_of_100_gpus_takes_nothing_of_the_10_idle_ones_from_who_holds_none():
    nodes = [node(number, 10, idle=10 if number == 10 else 0) for number in range(1, 11)]
    live = [running(1000 + number, 1, number, gpus=10) for number in range(1, 10)]
    old = [job(number, 1, wait_s=90_000) for number in range(1, 51)]
    new = [job(number, 1, tenant=2, wait_s=5) for number in range(51, 101)]
    ours = make_plan(nodes, old + new, running=live, **ONE_ARRAY)
    assert {each.job for each in ours.placements} == set(range(51, 61))
    hops = make_plan(nodes, old + new, running=live)
    assert all(each.job <= 50 for each in hops.placements)  # what goes wrong otherwise


def test_two_scattered_gpus_do_not_idle_behind_a_job_of_4_while_a_job_of_1_waits():
    nodes = [node(1, 4, idle=1), node(2, 4, idle=1)]
    jobs = [job(1, 4, wait_s=300), job(2, 1, tenant=2, wait_s=1)]
    assert list(where(make_plan(nodes, jobs, **ONE_ARRAY))) == [2]
    assert list(where(make_plan(nodes, jobs, policy="berth", borrowing="off", large_array_share=0))) == [2]


def stream(policy_knobs, plannings, *, tenants=(1,), age_s=600.0):
    """Simulated time: 8 GPUs on two nodes, always more jobs of 1 GPU than room, and one job of 4 from the start on.

    Returns the time at which the job of 4 started, or None. No job can be stopped; each runs `age_s`.
    """
    knobs = Parameters.from_mapping({"tick_s": 30, **policy_knobs})
    nodes = [node(1, 4, idle=0), node(2, 4, idle=0)]
    # What runs at first ends one GPU every 75 s.
    live = {
        number: Running(
            900 + number, tenants[number % len(tenants)], running(0, 1, 1 + number // 4, 1).pieces, 0.0, (1,)
        )
        for number in range(8)
    }
    live = {
        n: replace(r, pieces=(replace(r.pieces[0], gpus=(n % 4,), cores=(n % 4,)),), expected_end_s=75.0 * (n + 1))
        for n, r in live.items()
    }
    queue = {1: job(1, 4, tenant=99 if len(tenants) > 1 else 1, submitted_s=0.0, age_s=1000.0)}
    number = 2
    for step in range(plannings):
        now_s = 30.0 * step
        live = {key: each for key, each in live.items() if each.expected_end_s > now_s}
        while len(queue) < 7:
            queue[number] = job(number, 1, tenant=tenants[number % len(tenants)], submitted_s=now_s, age_s=age_s)
            number += 1
        held = [(piece.node, index) for each in live.values() for piece in each.pieces for index in piece.gpus]
        cores = [(piece.node, core) for each in live.values() for piece in each.pieces for core in piece.cores]
        here = [
            replace(
                each,
                idle_gpus=tuple(g for g in range(4) if (each.id, g) not in held),
                idle_cores=tuple(c for c in range(32) if (each.id, c) not in cores),
            )
            for each in nodes
        ]
        waiting = [replace(each, wait_s=now_s - each.submitted_s) for each in queue.values()]
        state = ClusterState(here, waiting, tuple(live.values()))
        made = plan(state, now_s, knobs, np.random.default_rng(step), ticking())
        check_feasible(made, state)
        for placement in made.placements:
            started = queue.pop(placement.job)
            if started.id == 1:
                return now_s
            live[started.id] = Running(
                started.id, started.tenant, placement.pieces, now_s, (1,), expected_end_s=now_s + started.age_s
            )
    return None


@pytest.mark.slow
def test_a_job_of_4_starts_within_a_bounded_time_under_a_stream_of_jobs_of_1():
    """LR reaches 1 after 1000 s; then one of two nodes drains, at most the 600 s of a job of 1."""
    begun_s = stream(ONE_ARRAY, 120)
    assert begun_s is not None
    assert begun_s <= 1000 + 600 + 60
    assert stream({"policy": "berth", "arrays": "on"}, 120) is not None  # half of the nodes are its own
    assert stream({"policy": "hops"}, 120) is None  # what goes wrong otherwise


def test_it_starts_too_when_the_stream_comes_from_several_other_tenants():
    begun_s = stream(ONE_ARRAY, 120, tenants=(1, 2, 3))
    assert begun_s is not None
    assert begun_s <= 1000 + 600 + 60


def test_kept_gpus_are_said_to_be_kept_and_go_to_who_ends_before():
    nodes = [node(1, 4, idle=2), node(2, 4, idle=0)]
    live = [
        Running(91, 2, running(0, 2, 1, 2).pieces, 0.0, (1,), expected_end_s=1_000_300.0),
        Running(92, 2, running(0, 2, 2, 4).pieces, 0.0, (4,), expected_end_s=1_009_000.0),
    ]
    jobs = [job(1, 4, wait_s=5000, age_s=1000), job(2, 1, wait_s=5, age_s=900), job(3, 1, wait_s=1, age_s=200)]
    made = make_plan(nodes, jobs, running=live, **ONE_ARRAY)
    assert where(made) == {3: {1: 1}}
    assert why(made) == {1: "not-enough-idle-gpus", 2: "reserved"}
    (keeper,) = decisions_of(made)[2].figures["keepers"]
    assert keeper == {"job": 1, "nodes": ["n1"], "gpus": 1, "until_s": NOW_S + 300, "cause": "reservation"}
    assert decisions_of(made)[1].figures["kept_for_it"] == {"nodes": ["n1"], "until_s": NOW_S + 300}
    assert [(each.job, each.nodes, each.until_s) for each in made.reservations] == [(1, (1,), 1_000_300.0)]


def test_one_starving_job_of_an_array_has_nodes_kept():
    nodes = [node(1, 8, idle=4), node(2, 8, idle=2), node(3, 8, idle=0)]
    live = [
        Running(90 + n, 2, running(0, 2, n, held).pieces, 0.0, (held,), expected_end_s=1_000_000.0 + 300 * n)
        for n, held in ((1, 4), (2, 6), (3, 8))
    ]
    starved = [job(1, 8, wait_s=9000, age_s=900), job(2, 8, wait_s=5000, age_s=900), job(3, 8, wait_s=90, age_s=900)]
    small = job(4, 1, wait_s=5, age_s=5000)
    made = make_plan(nodes, [*starved, small], running=live, **ONE_ARRAY)
    assert {each.job: set(each.nodes) for each in made.reservations} == {1: {1}}
    assert where(made) == {4: {2: 1}}


def test_who_is_passed_by_a_reservation_is_not_told_that_its_holder_waited_longer():
    """Shares decide whose turn it is: the holder's tenant has nothing yet, though its job has waited less in every way."""
    nodes = [node(1, 4, idle=2), node(2, 4, idle=0)]
    live = [
        Running(91, 2, running(0, 2, 1, 2).pieces, 0.0, (1,), expected_end_s=1_000_300.0),
        Running(92, 2, running(0, 2, 2, 4).pieces, 0.0, (4,), expected_end_s=1_009_000.0),
    ]
    jobs = [job(1, 4, wait_s=5000, age_s=1000), job(2, 1, tenant=2, wait_s=9000, age_s=900)]
    made = make_plan(nodes, jobs, running=live, **ONE_ARRAY)
    assert why(made)[2] == "reserved"
    told = sentence("reserved", decisions_of(made)[2].figures)
    assert "longer" not in told
    assert "has waited long for its length" in told


def test_a_large_jobs_array_is_not_taken_by_small_ones_that_could_not_be_stopped_while_one_could_start_there():
    nodes = [node(1, 4, idle=3), node(2, 4, idle=0)]  # node 1 is gpu-large's, node 2 gpu-small's
    stuck, movable = job(2, 1), job(3, 1, movable=True)
    jobs = [job(1, 4, wait_s=0), stuck, movable]
    made = make_plan(nodes, jobs, policy="berth", sweep="off")
    assert where(made) == {3: {1: 1}}
    assert why(made)[2] == "reserved"
    assert decisions_of(made)[2].figures["array"] == "gpu-small"
    assert where(make_plan(nodes, jobs, policy="berth")) == {3: {1: 1}, 2: {1: 1}}  # job 1 could not use it either
    fits = [job(1, 4, wait_s=0), *(job(number, 1, wait_s=900) for number in range(2, 9))]
    assert where(make_plan([node(1, 4), node(2, 4, idle=1)], fits, policy="berth"))[1] == {1: 4}
    alone = make_plan(nodes, [stuck, movable], policy="berth")
    assert where(alone) == {2: {1: 1}, 3: {1: 1}}
    assert where(make_plan(nodes, [stuck, movable], policy="berth", borrowing="off")) == {}


def test_borrowed_nodes_are_used_when_the_own_ones_are_full_only():
    nodes = [node(1, 4), node(2, 4)]
    for placement in ("ilp", "greedy"):
        made = make_plan(nodes, [job(1, 2), job(2, 4)], policy="berth", placement=placement)
        assert where(made) == {1: {2: 2}, 2: {1: 4}}


def test_what_is_lent_is_shared_out_by_the_window_not_taken_by_its_first_elastic_job():
    """Section 4: the front reaches to what this planning can hand out, and what is lent is handed out too."""
    nodes = [node(1, 8), node(2, 8, idle=1)]  # node 1 is gpu-large, and nobody asks for it
    made = make_plan(nodes, [job(n, 1, 2, 4, 8, tenant=1 + n % 2) for n in range(1, 9)], policy="berth")
    assert sorted(where(made)) == list(range(1, 9))
    # Of a large job that waits for it, nothing is lent: the front is the own array's idle GPU.
    jobs = [job(1, 8, wait_s=9e3), *(job(n, 1, 2, 4, 8, tenant=1 + n % 2) for n in range(2, 9))]
    views = {view.array: view for view in make_plan(nodes, jobs, policy="berth").windows}
    assert (views["gpu-small"].idle, views["gpu-small"].front_jobs, views["gpu-large"].idle) == (1, 1, 8)


def test_an_owner_calls_back_the_fewest_and_youngest_borrowers():
    nodes = [node(1, 4, idle=1), node(2, 4, idle=0)]
    pieces = [running(0, 2, 1, gpus).pieces for gpus in (1, 1, 1)]
    live = [Running(90 + k, 2, piece, float(k), (1,), movable=k != 2) for k, piece in enumerate(pieces)]
    live.append(Running(99, 2, running(0, 2, 2, 4).pieces, 0.0, (1, 4)))
    asked = job(1, 4, wait_s=0)
    untouched = make_plan(nodes, [asked], running=live, policy="berth")
    assert (untouched.stops, untouched.promises) == ((), ())  # 92 cannot be stopped
    live[2] = replace(live[2], movable=True)
    made = make_plan(nodes, [asked], running=live, policy="berth")
    assert {order.job for order in made.stops} == {90, 91, 92}
    assert {(order.cause, order.for_job, order.from_gpus, order.to_gpus) for order in made.stops} == {
        ("call-back", 1, 1, 0)
    }
    assert made.promises == (Promised(1, (Share(1, 4, 4, 0),), "call-back"),)
    assert decisions_of(made)[1].figures["promised"] == {"nodes": ["n1"], "cause": "call-back", "stopping": 3}
    assert "being freed on n1" in sentence(why(made)[1], decisions_of(made)[1].figures)
    # While they stop what is idle is the owner's, whoever else could borrow it, and nobody is stopped again.
    others = [job(2, 1, tenant=3, movable=True, wait_s=9000)]
    asked = replace(asked, promise=Promise(made.promises[0].shares, NOW_S, "call-back"))
    live = [replace(live[0], stopping=True), *live[3:]]
    again = make_plan([node(1, 4, idle=3), nodes[1]], [asked, *others], running=live, policy="berth")
    assert (where(again), again.stops, again.lapsed, why(again)[2]) == ({}, (), (), "reserved")
    assert again.metrics.gpus_idle == 3
    done = make_plan([node(1, 4), nodes[1]], [asked, *others], running=live[1:], policy="berth")
    assert where(done) == {1: {1: 4}}


def test_cores_of_gpu_jobs_do_not_count_against_a_tenants_cpu_jobs():
    """CODA's complaint about DRF: who holds GPUs, and 60 cores with them, starves of CPUs."""
    nodes = [node(1, 8, cores=64, idle=0, idle_cores=4), node(2, 0, cores=4)]
    live = [running(9, 1, 1, gpus=8, cores=60)]
    jobs = [job(number, cores=1, tenant=1 + number % 2) for number in range(1, 17)]
    placed = {policy: where(make_plan(nodes, jobs, running=live, policy=policy)) for policy in ("drf", "berth")}
    count = {policy: sum(number % 2 == 0 for number in found) for policy, found in placed.items()}
    assert (count["drf"], count["berth"]) == (0, 4)


def test_reserved_cores_are_kept_from_cpu_jobs_that_cannot_be_stopped():
    nodes = [node(1, 8, cores=32)]  # 24 of 32 cores are reserved
    made = make_plan(nodes, [job(1, cores=9), job(2, cores=8), job(3, cores=20, movable=True)], policy="berth")
    assert set(where(made)) == {2, 3}
    assert why(made) == {1: "reserved"}


def test_cpu_jobs_take_turns_by_share():
    nodes = [node(1, 0, cores=10)]
    jobs = [*(job(number, cores=1, wait_s=900) for number in range(1, 11)), *(job(20 + k, tenant=2) for k in range(10))]
    made = make_plan(nodes, jobs, policy="berth", running=[running(99, 1, 77, cores=2)])
    assert sum(number < 20 for number in where(made)) == 4
    off = make_plan(nodes, jobs, policy="berth", fair_shares="off")
    assert set(where(off)) == set(range(1, 11))


def test_fair_shares_off_is_the_queues_order_alone():
    jobs = [*(job(number, 1, wait_s=900) for number in range(1, 9)), *(job(20 + k, 1, tenant=2) for k in range(8))]
    assert set(where(make_plan([node(1, 8)], jobs, **ONE_ARRAY, fair_shares="off"))) == set(range(1, 9))
    assert sum(number < 20 for number in where(make_plan([node(1, 8)], jobs, **ONE_ARRAY))) == 4


def test_a_borrower_that_was_stopped_is_first_in_its_array():
    jobs = [job(number, 1, wait_s=9000) for number in range(1, 5)]
    assert 4 not in where(make_plan([node(1, 4, idle=1)], jobs, **ONE_ARRAY))
    returned = [*jobs[:3], replace(jobs[3], wait_s=0.0, gave_back=True)]
    assert set(where(make_plan([node(1, 4, idle=1)], returned, **ONE_ARRAY))) == {4}
    cpu_jobs = [job(1, tenant=2, wait_s=900), job(2, wait_s=0, gave_back=True)]
    assert set(where(make_plan([node(1, 0, cores=1)], cpu_jobs, policy="berth"))) == {2}


def test_a_job_that_only_the_other_array_can_hold_is_no_borrower_there():
    """Else two large jobs on a cluster of one node would call each other back for ever."""
    nodes = [node(1, 8, idle=0)]
    live = [Running(9, 2, running(9, 2, 1, 8).pieces, 0.0, (8,), movable=True)]
    assert make_plan(nodes, [job(1, 8)], running=live, policy="coda").stops == ()
