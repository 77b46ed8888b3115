"""Re-plans (algorithms.md sections 6 and 7; Hops 3.6): running elastic jobs take part, at the cost of their restart."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model import Piece, Promise, Running, Tenant
from scheduler.policies.registry import POLICIES
from scheduler.replan.participants import kept_for_s, restart_factor
from tests.scheduler.builders import NOW_S, job, make_plan, node, where, why

LONG_AGO = NOW_S - 100_000


def elastic(number, *requirement, on=1, gpus=8, first=0, started_s=LONG_AGO, tenant=1, restarts=0, wait_s=0.0, **more):
    """A running elastic job that may be stopped, one core a GPU, on the node's GPUs from `first` on."""
    described = job(number, *requirement, tenant=tenant, wait_s=wait_s, movable=True)
    ids = tuple(range(first, first + gpus))
    return Running(
        number,
        tenant,
        (Piece(on, ids, ids, 0),),
        started_s,
        requirement,
        elastic=True,
        movable=True,
        description=described,
        restarts=restarts,
        **more,
    )


def beside(number, live, gpus=8, **more):
    """The node on which these run, less what they hold."""
    held = {index for each in live for piece in each.pieces if piece.node == number for index in piece.gpus}
    idle_gpus = tuple(g for g in range(gpus) if g not in held)
    return replace(
        node(number, gpus, **more), idle_gpus=idle_gpus, idle_cores=tuple(c for c in range(32) if c not in held)
    )


def replanned(live, jobs=(), *, nodes=None, **knobs):
    """A re-plan on one node of 8 GPUs under `hops`, unless said otherwise."""
    nodes = nodes or [beside(1, live)]
    return make_plan(nodes, list(jobs), running=list(live), replan=True, **{"policy": "hops", **knobs})


def orders(made):
    return [(each.job, each.cause, each.for_job, each.from_gpus, each.to_gpus) for each in made.stops]


def promises(made):
    return {given.job: {share.node: share.gpus for share in given.shares} for given in made.promises}


@pytest.mark.parametrize("policy", ["hops", "berth"])
def test_a_running_job_is_made_smaller_for_one_that_waits(policy):
    made = replanned([elastic(9, 4, 8)], [job(1, 4)], policy=policy)
    assert made.replan
    assert orders(made) == [(9, "resize", 1, 8, 4)]
    assert promises(made) == {9: {1: 4}, 1: {1: 4}}
    assert where(made) == {}
    assert (why(made)[1], made.decisions[0].figures["promised"]["nodes"]) == ("not-enough-idle-gpus", ["n1"])
    assert (made.solver.participants, made.solver.left_out, made.solver.formulation) == (1, 0, "located")


def test_between_re_plans_it_runs_on():
    live = [elastic(9, 4, 8)]
    made = make_plan([beside(1, live)], [job(1, 4)], running=live)
    assert (made.stops, made.promises, made.replan) == ((), (), False)


@pytest.mark.parametrize(
    "knobs", [{"policy": name} for name, policy in POLICIES.items() if not policy.replans] + [{"placement": "greedy"}]
)
def test_policies_without_a_joint_solve_never_re_plan(knobs):
    made = replanned([elastic(9, 4, 8)], [job(1, 4)], **knobs)
    assert (made.stops, made.promises, made.replan) == ((), (), False)


@pytest.mark.parametrize(
    "live",
    [
        pytest.param(replace(elastic(9, 4, 8), description=None), id="a rigid job, or one that cannot be stopped"),
        pytest.param(elastic(9, 4, 8, stopping=True), id="one that is stopping"),
        pytest.param(elastic(9, 4, 8, started_s=NOW_S - 599), id="one that has its configuration for less than 10 S"),
        pytest.param(elastic(9, 4, 8, started_s=NOW_S - 1999, restart_s=200.0), id="10 S, where S was measured"),
        pytest.param(
            replace(elastic(9, 4, 8), description=job(9, 4, 8, memory_mib=-1)), id="one whose description is not valid"
        ),
    ],
)
def test_who_runs_on(live):
    made = replanned([live], [job(1, 4)])
    assert (made.stops, made.promises, made.solver.participants) == ((), (), 0)


def test_a_configuration_is_kept_for_a_period_and_for_ten_restarts():
    assert (kept_for_s(60, 360), kept_for_s(20, 360)) == (600, 360)
    for started_s, changed in ((NOW_S - 600, True), (NOW_S - 599, False)):
        assert bool(replanned([elastic(9, 4, 8, started_s=started_s)], [job(1, 4)]).stops) == changed
    assert not replanned([elastic(9, 4, 8, started_s=NOW_S - 600)], [job(1, 4)], replan_s=601).stops


def test_a_job_on_a_node_that_takes_no_jobs_runs_on():
    live = [elastic(9, 4, 8)]
    assert not replanned(live, [job(1, 4)], nodes=[beside(1, live, schedulable=False), node(2, 2)]).stops


@pytest.mark.parametrize(
    ("elapsed_s", "restarts", "restart_s", "factor"),
    [(600, 0, 60, 600 / 660), (600, 5, 60, 300 / 660), (600, 10, 60, 0.0), (600, 11, 60, 0.0), (0, 0, 60, 0.0)],
)
def test_every_other_configuration_loses_the_restart(elapsed_s, restarts, restart_s, factor):
    assert restart_factor(elapsed_s, restarts, restart_s) == pytest.approx(factor)


@pytest.mark.parametrize(("restarts", "grows"), [(0, True), (4, True), (5, False)])
def test_it_grows_onto_idle_gpus_when_that_is_worth_the_restart(restarts, grows):
    """8 GPUs are 8^0.9 / 4^0.9 = 1.866 times 4; with T = 600 s and S = 60 s, N = 5 leaves 300 / 660 of that."""
    made = replanned([elastic(9, 4, 8, gpus=4, started_s=NOW_S - 600, restarts=restarts)])
    assert orders(made) == ([(9, "resize", None, 4, 8)] if grows else [])
    assert promises(made) == ({9: {1: 8}} if grows else {})


def test_t_counts_from_the_first_start():
    live = elastic(9, 4, 8, gpus=4, started_s=NOW_S - 600, restarts=4, first_started_s=LONG_AGO)
    assert orders(replanned([live])) == [(9, "resize", None, 4, 8)]


def test_it_moves_to_a_faster_type():
    live = [elastic(9, 4, gpus=4, wait_s=600)]
    nodes = [beside(1, live, gpus=4, gpu_type="v100"), node(2, 4)]
    made = replanned(live, nodes=nodes, gpu_speeds={"v100": 1.0, "a100": 2.0})
    assert (orders(made), promises(made)) == ([(9, "move", None, 4, 4)], {9: {2: 4}})
    # What is promised to it is not handed out meanwhile, although it is idle.
    waits = replanned(live, [job(1, 1)], nodes=nodes, gpu_speeds={"v100": 1.0, "a100": 2.0})
    assert where(waits) == {}
    assert promises(waits) == {9: {2: 4}, 1: {1: 1}}


def test_what_runs_no_worse_than_elsewhere_stays():
    live = [elastic(9, 4, gpus=4)]
    made = replanned(live, [job(1, 4)], nodes=[beside(1, live, gpus=4), node(2, 4)])
    assert (orders(made), where(made)) == ([], {1: {2: 4}})


def test_truly_idle_gpus_are_taken_at_once_the_others_are_promised():
    live = [elastic(9, 2, 4, gpus=4)]
    made = replanned(live, [job(1, 2, wait_s=900), job(2, 2, wait_s=560), job(3, 2, wait_s=550)])
    assert where(made) == {1: {1: 2}, 2: {1: 2}}
    assert (orders(made), promises(made)) == ([(9, "resize", 3, 4, 2)], {9: {1: 2}, 3: {1: 2}})


def test_preemption_is_the_operators_to_allow():
    live, jobs = [elastic(9, 8)], [job(1, 4), job(2, 4)]
    made = replanned(live, jobs)
    assert (orders(made), promises(made)) == ([(9, "preempt", 1, 8, 0)], {1: {1: 4}, 2: {1: 4}})
    off = replanned(live, jobs, preemption="off")
    assert (off.stops, off.promises, off.solver.participants) == ((), (), 1)
    assert orders(replanned([elastic(9, 4, 8)], [job(1, 4)], preemption="off")) == [(9, "resize", 1, 8, 4)]


def test_not_selecting_a_running_job_costs_its_restart():
    """Two jobs of weight 1 against 1 + S / period: S = 360 s of a period of 360 s is a tie, beyond it the job stays."""
    jobs = [job(1, 4), job(2, 4)]
    assert replanned([elastic(9, 8, restart_s=350.0)], jobs).stops
    assert not replanned([elastic(9, 8, restart_s=370.0)], jobs).stops
    assert replanned([elastic(9, 8, restart_s=370.0)], jobs, replan_s=720).stops


def test_a_running_job_weighs_at_least_the_windows_median():
    """Its own ratio is 0; with the median 1 of (1, 1, 0.1) it outweighs the one job that would take its place."""
    jobs = [job(1, 4, wait_s=600), job(2, 4, wait_s=600), job(3, 8, wait_s=60)]
    live = [elastic(8, 4, gpus=4), elastic(9, 4, gpus=4, first=4)]
    assert not replanned(live, jobs).stops
    below = [job(number, 4, wait_s=0) for number in range(4, 9)]
    assert replanned(live, [*jobs[:2], *below], window_size=4).stops  # the median is 0.01 / 1.01


def test_the_front_counts_what_participants_hold_and_shares_what_they_hold_now():
    live = [elastic(9, 1, 2, 4, 8)]
    jobs = [*(job(number, 1, wait_s=900) for number in range(1, 7)), *(job(10 + k, 1, tenant=2) for k in range(6))]
    made = replanned(live, jobs, policy="berth", arrays="off")
    assert sum(view.idle for view in made.windows) == 8
    filled = make_plan([beside(1, live)], jobs, running=live, policy="berth", arrays="off")
    assert sum(view.idle for view in filled.windows) == 0
    given = promises(made).keys() - {9}
    assert len([number for number in given if number >= 10]) >= len([number for number in given if number < 10]) > 0


def test_a_tenant_at_its_quota_may_start_more_by_making_its_own_smaller():
    live = [elastic(9, 4, 8)]
    made = replanned(live, [job(1, 4)], nodes=[beside(1, live), node(2, 8)], tenants=[Tenant(1, gpu_quota=8)])
    assert promises(made).keys() == {1, 9}
    # While the stop goes on, the quota that it will free is the promised jobs'.
    shares = {given.job: given.shares for given in made.promises}
    kept = {
        number: replace(described, promise=Promise(shares[number], NOW_S - 5, "resize"))
        for number, described in ((1, job(1, 4)), (9, live[0].description))
    }
    stopping = replace(live[0], stopping=True, description=kept[9])
    again = make_plan([beside(1, live), node(2, 8)], [kept[1]], running=[stopping], tenants=[Tenant(1, gpu_quota=8)])
    assert (again.lapsed, where(again)) == ((), {})
    done = make_plan([node(1, 8), node(2, 8)], list(kept.values()), tenants=[Tenant(1, gpu_quota=8)])
    assert {number: sum(there.values()) for number, there in where(done).items()} == {1: 4, 9: 4}


def larger(nodes):
    """With so many busy nodes more that the window is placed by class."""
    return [*nodes, *(node(number, 8, idle=0) for number in range(50, 67))]


@pytest.mark.parametrize("policy", ["hops", "berth"])
def test_on_larger_clusters_a_running_job_is_made_smaller_too(policy):
    """Section 6: by class its node is one of its own, on which it may keep what it has."""
    live = [elastic(9, 4, 8)]
    made = replanned(live, [job(1, 4)], nodes=larger([beside(1, live)]), policy=policy)
    assert orders(made) == [(9, "resize", 1, 8, 4)]
    assert promises(made) == {9: {1: 4}, 1: {1: 4}}
    assert (made.solver.participants, made.solver.left_out, made.solver.formulation) == (1, 0, "aggregated")
    assert orders(replanned(live, nodes=larger([beside(1, live)]), policy=policy)) == []


def test_by_class_a_node_has_few_running_jobs_that_may_be_changed():
    live = [elastic(number, 1, 2, gpus=1, first=number - 1) for number in range(1, 7)]
    made = replanned(live, nodes=larger([beside(1, live)]))
    assert (made.solver.participants, made.solver.left_out) == (4, 2)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["hops", "berth"])
def test_on_a_larger_cluster_a_re_plan_looks_at_16_nodes_and_counts_who_was_left_out(policy):
    live = [elastic(100 + number, 4, 8, on=number) for number in range(1, 21)]
    nodes = [beside(number, live) for number in range(1, 22)]  # node 21 is idle
    jobs = [job(number, 4, wait_s=600) for number in range(1, 41)]
    made = replanned(live, jobs, nodes=nodes, policy=policy, arrays="off", preemption="off")
    assert (made.solver.participants, made.solver.left_out) == (16, 4)
    stopped = {order.job for order in made.stops}
    assert 0 < len(stopped) <= 16
    assert {on for there in where(made).values() for on in there} == {21}
    assert len(where(made)) == 2
    assert len(promises(made).keys() - stopped) == len(stopped)  # each makes room for one
    another = replanned(live, jobs, nodes=nodes, policy=policy, arrays="off", preemption="off", seed=2)
    assert {order.job for order in another.stops} != stopped


@st.composite
def contended(draw):
    """Up to three nodes with elastic jobs on them, some of the same tenants as what waits."""
    live, nodes = [], []
    for number in range(1, draw(st.integers(1, 3)) + 1):
        here, at = [], 0
        while at < 8 and draw(st.booleans()):
            sizes = draw(st.sampled_from([(1, 2, 4), (2, 4), (4, 8), (1,), (2, 8)]))
            gpus = draw(st.sampled_from(sizes))
            if at + gpus <= 8:
                here.append(
                    elastic(
                        100 + 10 * number + len(here),
                        *sizes,
                        on=number,
                        gpus=gpus,
                        first=at,
                        tenant=draw(st.integers(1, 2)),
                        wait_s=draw(st.integers(0, 900)),
                    )
                )
            at += gpus
        live += here
        nodes.append(beside(number, here, gpu_type=draw(st.sampled_from(["a100", "v100"]))))
    jobs = [
        job(
            number,
            *draw(st.sampled_from([(1,), (2,), (1, 2), (4,), (8,), (4, 8)])),
            tenant=draw(st.integers(1, 2)),
            wait_s=draw(st.integers(0, 3000)),
        )
        for number in range(1, draw(st.integers(0, 6)) + 1)
    ]
    return nodes, live, jobs, draw(st.none() | st.integers(4, 16))


@settings(max_examples=8, deadline=None)
@given(contended(), st.sampled_from(["on", "off"]), st.booleans())
def test_every_re_plan_is_feasible_and_of_equal_bytes(cluster, preemption, by_class):
    """Invariants are checked in `make_plan`: starts are idle, promises can be kept, quotas hold."""
    nodes, live, jobs, quota = cluster
    nodes = larger(nodes) if by_class else nodes
    common = {"running": live, "tenants": [Tenant(1, gpu_quota=quota)], "replan": True, "preemption": preemption}
    plans = [make_plan(nodes, jobs, policy="berth", **common) for _ in range(2)]
    assert plans[0].as_json() == plans[1].as_json()
    for order in plans[0].stops:
        assert preemption == "on" or order.cause != "preempt"
        assert order.cause == "call-back" or (order.cause == "preempt") == (order.to_gpus == 0) == (
            order.job not in promises(plans[0])
        )


@settings(max_examples=8, deadline=None)
@given(contended())
def test_one_tenant_and_one_array_is_exactly_hops_in_a_re_plan_too(cluster):
    nodes, live, jobs, quota = cluster
    live = [replace(each, tenant=1, description=replace(each.description, tenant=1)) for each in live]
    jobs = [replace(each, tenant=1) for each in jobs]
    common = {"running": live, "tenants": [Tenant(1, gpu_quota=quota)], "replan": True}
    hops = make_plan(nodes, jobs, policy="hops", **common)
    ours = make_plan(nodes, jobs, policy="berth", arrays="off", gain="linear", reserve_lr=None, sweep="off", **common)
    assert (ours.placements, ours.stops, ours.promises) == (hops.placements, hops.stops, hops.promises)
    assert ours.solver == hops.solver


def test_who_starves_and_fits_keeps_no_nodes_from_the_solve():
    """LR >= 1 and 4 idle GPUs: the first job starts there, and the running one makes room for the third all the same."""
    live = [elastic(9, 2, 4, gpus=4)]
    jobs = [job(1, 2, wait_s=900), job(2, 2, wait_s=860), job(3, 2, wait_s=850)]
    made = replanned(live, jobs, policy="berth")
    assert made.reservations == ()
    assert (where(made), promises(made)) == ({1: {1: 2}, 2: {1: 2}}, {9: {1: 2}, 3: {1: 2}})


def test_who_starves_and_fits_is_placed_although_others_are_worth_more():
    """Four jobs of 1 GPU, each nearly as old: together worth more than the one of 4 that stands first."""
    jobs = [job(1, 4, wait_s=660), *(job(number, 1, wait_s=600) for number in range(2, 6))]
    knobs = {"policy": "berth", "arrays": "off", "window_size": 2}
    assert where(make_plan([node(1, 4)], jobs, **knobs)) == {1: {1: 4}}
    assert 1 not in where(make_plan([node(1, 4)], jobs, reserve_lr=None, **knobs))


def test_on_nodes_kept_for_another_a_running_job_may_only_take_less():
    live = [elastic(9, 2, 4, 5, gpus=4), replace(elastic(8, 3, gpus=3, first=4), description=None)]
    live[1] = replace(live[1], expected_end_s=NOW_S + 60)
    jobs = [job(1, 8, wait_s=9000)]
    assert orders(replanned(live, policy="berth", arrays="off")) == [(9, "resize", None, 4, 5)]
    kept = replanned(live, jobs, policy="berth", arrays="off")
    assert (orders(kept), [each.nodes for each in kept.reservations]) == ([], [(1,)])
    jobs.append(job(2, 2, wait_s=8000, age_s=30))  # it ends before that
    made = replanned(live, jobs, policy="berth", arrays="off")
    assert promises(made) == {9: {1: 2}, 2: {1: 2}}


def spread(number, *requirement, on, gpus=1, started_s=LONG_AGO, **more):
    """A running elastic job with the first GPUs of several nodes."""
    live = elastic(number, *requirement, gpus=gpus, started_s=started_s, **more)
    ids = tuple(range(gpus))
    return replace(live, pieces=tuple(Piece(each, ids, ids, 0) for each in on))


@pytest.mark.parametrize("policy", ["hops", "berth"])
def test_on_larger_clusters_who_runs_on_several_nodes_is_made_smaller_too(policy):
    """Else the large ones keep most of the cluster to their end, while everybody else has one GPU."""
    live = [spread(9, 4, 16, on=(1, 2), gpus=8)]
    made = replanned(live, [job(1, 8)], nodes=larger([beside(1, live), beside(2, live)]), policy=policy)
    assert [order[:3] for order in orders(made)] == [(9, "resize", 1)]
    assert {number: sum(nodes.values()) for number, nodes in promises(made).items()} == {9: 4, 1: 8}
    assert (made.solver.participants, made.solver.left_out, made.solver.formulation) == (1, 0, "aggregated")
    assert orders(replanned(live, nodes=larger([beside(1, live), beside(2, live)]), policy=policy)) == []


def test_running_jobs_are_limited_to_reserved_cores_like_waiting_ones_where_nobody_borrows():
    """Nobody waits, so that only who takes part is limited; the re-plan knew of waiting jobs alone, and raised."""
    live = [elastic(9, 1, 2, 4, gpus=2)]
    for gpu_nodes in (1, 17):
        nodes = [beside(1, live), *(node(number, 8) for number in range(2, gpu_nodes + 1))]
        made = replanned(live, nodes=nodes, policy="berth", borrowing="off")
        assert made.solver.participants == 1
