"""Urgent jobs and rounds that end early (docs/decisions/0015): who is urgent, who makes room, when the next re-plan is."""

from dataclasses import replace

import pytest

from scheduler.model import Ranked, Tenant
from scheduler.replan.early import pressing
from tests.scheduler.builders import NOW_S, job, make_plan, node, where
from tests.scheduler.driver import Driver
from tests.scheduler.replan.test_replans import beside, elastic, orders, promises


def ranked(wait_s, age_s=60.0):
    return Ranked(job(1, 8), 1, wait_s / age_s, wait_s / age_s, age_s, "declared")


class TestPressing:
    @pytest.mark.parametrize(
        ("wait_s", "since_s", "in_s"),
        [
            (0, 60, 60),
            (59, 60, 1),
            (60, 60, 0),
            (120, 60, 0),
            (150, 60, 30),
            (300, 150, 0),
            (720, 360, 0),
            (0, 600, 60),
        ],
    )
    def test_from_when_its_ratio_has_reached_the_knob_and_doubled_since_the_last_re_plan(self, wait_s, since_s, in_s):
        from_s = pressing([ranked(wait_s)], 1.0, 1000.0 - since_s, 1000.0)[1]
        assert max(0.0, from_s - 1000.0) == in_s

    def test_nobody_before_the_first_re_plan(self):
        assert pressing([ranked(60)], 1.0, None, 1000.0) == {}


def crowd(gpu_nodes=1, lender_wait_s=0.0):
    """Elastic jobs of a large gain hold every node; each may be stopped."""
    live = [elastic(100 + n, 1, 8, on=n, wait_s=lender_wait_s, tenant=1) for n in range(1, gpu_nodes + 1)]
    return live, [beside(n, live) for n in range(1, gpu_nodes + 1)]


def rigid(wait_s=90.0, tenant=1):
    """A minute's job of one size: its G is 1, and no sum of gains lets it displace anybody."""
    return job(1, 8, age_s=60, wait_s=wait_s, tenant=tenant)


LOCATED, BY_CLASS = 2, 17
"""GPU nodes: up to 16 the program looks at every one, above them it places by class and room is made after it."""


def replanned(gpu_nodes, waiting, *, lender_wait_s=0.0, lender=1, since_s=60.0, **knobs):
    live, nodes = crowd(gpu_nodes, lender_wait_s)
    live = [replace(each, tenant=lender, description=replace(each.description, tenant=lender)) for each in live]
    knobs = {"policy": "berth", "arrays": "off", "replan": True, **knobs}
    return make_plan(nodes, [waiting], running=live, replanned_s=NOW_S - since_s, **knobs)


def starts(made):
    return 1 in promises(made)


@pytest.mark.parametrize("gpu_nodes", [LOCATED, BY_CLASS])
class TestRoom:
    def test_a_re_plan_makes_room_for_an_urgent_job_that_the_objective_would_refuse(self, gpu_nodes):
        made = replanned(gpu_nodes, rigid())
        assert promises(made)[1] in [{n: 8} for n in range(1, gpu_nodes + 1)]
        assert [(cause, for_job) for _, cause, for_job, _, _ in orders(made)] == [("preempt", 1)]

    def test_once_its_ratio_has_not_doubled_the_objective_decides(self, gpu_nodes):
        assert not starts(replanned(gpu_nodes, rigid(wait_s=121.0)))

    def test_not_without_the_knob_that_says_from_which_ratio_on(self, gpu_nodes):
        assert not starts(replanned(gpu_nodes, rigid(), reserve_lr=None))

    def test_not_where_nothing_may_be_preempted(self, gpu_nodes):
        assert not starts(replanned(gpu_nodes, rigid(), preemption="off"))

    def test_not_under_hops(self, gpu_nodes):
        assert not starts(replanned(gpu_nodes, rigid(), policy="hops"))


def test_who_has_waited_more_than_half_as_much_for_its_length_makes_no_room():
    assert starts(replanned(BY_CLASS, rigid(), lender_wait_s=0.74 * 600))
    assert not starts(replanned(BY_CLASS, rigid(), lender_wait_s=0.76 * 600))


def test_no_tenant_makes_room_for_one_that_holds_more():
    live, nodes = crowd(BY_CLASS)
    poor = [replace(live[0], tenant=2, description=replace(live[0].description, tenant=2))]
    rich = [replace(each, movable=False, elastic=False) for each in live[1:]]  # tenant 1's, not to be stopped
    knobs = {"policy": "berth", "arrays": "off", "replan": True, "replanned_s": NOW_S - 60, "running": [*poor, *rich]}
    assert not starts(make_plan(nodes, [rigid(tenant=1)], **knobs))
    assert starts(make_plan(nodes, [rigid(tenant=2)], **knobs))
    assert starts(make_plan(nodes, [rigid(tenant=1)], **knobs, fair_shares="off"))


def test_a_round_ends_early_for_an_urgent_job_without_a_place(subtests):
    for since_s, knobs, early in [
        (59, {}, False),
        (60, {}, True),
        (60, {"replan_early_s": 90}, False),
        (60, {"replan_early_s": None}, False),
        (60, {"replan_s": 60}, False),
        (60, {"policy": "hops"}, False),
        (60, {"placement": "greedy"}, False),
        (60, {"reserve_lr": None}, False),
    ]:
        with subtests.test(since_s=since_s, knobs=knobs):
            made = replanned(LOCATED, rigid(), since_s=since_s, replan=False, **knobs)
            assert made.replan_early is early
            assert not made.stops


@pytest.mark.parametrize(("gain", "kept_s"), [("linear", 600), ("efficient", 120)])
def test_not_while_nobody_may_be_changed(gain, kept_s):
    """Ten restarts' cost after it began at the soonest; two where every change must pay by itself."""
    live, nodes = crowd(LOCATED)
    knobs = {"policy": "berth", "replanned_s": NOW_S - 60, "arrays": "off", "gain": gain}
    for age_s, early in ((kept_s - 1, False), (kept_s, True)):
        young = [replace(each, started_s=NOW_S - age_s) for each in live]
        assert make_plan(nodes, [rigid()], running=young, **knobs).replan_early is early


@pytest.mark.parametrize(("idle", "wanted", "early"), [(1, 2, True), (1, 3, False), (0, 1, False)])
def test_a_round_ends_early_for_scattered_gpus(idle, wanted, early):
    """One GPU of 8 idle on each of two nodes: enough for a job of two that may not be spread, not for one of three."""
    live = [elastic(100 + n, 1, 8 - idle, on=n, gpus=8 - idle) for n in (1, 2)]
    waiting = job(1, wanted, age_s=3600, wait_s=60)
    made = make_plan(
        [beside(n, live) for n in (1, 2)], [waiting], running=live, policy="berth", replanned_s=NOW_S - 60, arrays="off"
    )
    assert where(made) == {}
    assert made.replan_early is early


def test_not_for_who_waits_for_a_quota():
    """One of two starts on the tenant's last GPU. What is idle then is nobody's fragment, and no re-plan changes it."""
    live = [elastic(100 + n, 1, 7, on=n, gpus=7) for n in (1, 2)]
    waiting = [job(number, 1, age_s=3600, wait_s=60) for number in (1, 2)]
    knobs = {"policy": "berth", "arrays": "off", "replanned_s": NOW_S - 60, "tenants": [Tenant(1, gpu_quota=15)]}
    made = make_plan([beside(n, live) for n in (1, 2)], waiting, running=live, **knobs)
    assert list(where(made)) == [1]
    assert made.decisions[1].reason == "tenant-quota"
    assert not made.replan_early


def short_jobs_among_long_ones(**knobs):
    """Elastic jobs keep both nodes busy; every 20 min, off the rounds' beat, one comes that needs a node for two minutes."""
    driver = Driver([node(1, 4), node(2, 4)], replan_s=600, restart_cost_s=10, arrays="off", **knobs)
    for number in (1, 2, 3, 4):
        driver.submit(job(number, 1, 2, 4, movable=True, expected_duration_s=40_000), 40_000.0 * 4**0.9)
    for number in range(5, 10):
        driver.submit(job(number, 4, expected_duration_s=120), 120.0 * 4**0.9, at_s=1210.0 * (number - 4))
    driver.run(2 * 3600)
    ratios = [load.wait_s(2 * 3600.0) / 120 for number, load in driver.loads.items() if number > 4]
    return sum(load.restarts for load in driver.loads.values()), sum(ratios) / len(ratios), max(ratios)


@pytest.mark.parametrize(("gain", "most", "stops"), [("linear", 2.5, 13), ("efficient", 2.8, 23)])
def test_short_jobs_wait_no_longer_for_the_round_s_end(gain, most, stops):
    """Two running jobs make room for each of five, and resizes that pay."""
    restarts, mean, worst = short_jobs_among_long_ones(gain=gain)
    without = short_jobs_among_long_ones(replan_early_s=None, reserve_lr=None, gain=gain)
    assert mean < most
    assert without[1] > 2 * mean
    assert worst < without[2]
    assert restarts <= stops
