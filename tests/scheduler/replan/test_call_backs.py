"""Whom an owner's job calls back, and when (algorithms.md section 4; docs/decisions/0016)."""

from dataclasses import replace

import pytest

from scheduler.model import Running
from scheduler.replan import call_backs
from tests.scheduler.builders import NOW_S, job, make_plan, node, running
from tests.scheduler.driver import Driver

RESTART_S = 60.0
LONG_AGO_S, SHORTLY_S = NOW_S - 3600.0, NOW_S - 5 * RESTART_S


def borrower(*sizes, since_s=LONG_AGO_S):
    """On node 1, the large jobs'; at home on node 2, which is full."""
    held = running(0, 2, 1, max(sizes)).pieces
    return Running(90, 2, held, since_s, sizes, movable=True, elastic=len(sizes) > 1)


def stopped(live, policy="berth", *, replan=False, **knobs):
    nodes = [node(1, 4, idle=4 - live.gpus), node(2, 4, idle=0)]
    others = [Running(99, 2, running(0, 2, 2, 4).pieces, 0.0, (4,))]
    knobs = {"restart_cost_s": RESTART_S, **knobs}
    made = make_plan(nodes, [job(1, 4, wait_s=0)], running=[live, *others], policy=policy, replan=replan, **knobs)
    return [order.job for order in made.stops]


def test_a_borrower_of_one_size_is_called_back_at_any_planning():
    assert stopped(borrower(2, since_s=SHORTLY_S)) == [90]


def test_an_elastic_one_is_called_back_in_re_plans_alone():
    assert stopped(borrower(1, 2)) == []
    assert stopped(borrower(1, 2), replan=True) == [90]


def test_it_keeps_what_it_has_for_ten_restarts_time():
    assert stopped(borrower(1, 2, since_s=SHORTLY_S), replan=True) == []
    measured = replace(borrower(1, 2, since_s=SHORTLY_S), restart_s=20.0)
    assert stopped(measured, replan=True) == [90]


def test_without_re_plans_it_is_called_back_like_the_others():
    assert stopped(borrower(1, 2), "coda") == [90]
    assert stopped(borrower(1, 2, since_s=SHORTLY_S), "coda") == [90]
    assert stopped(borrower(1, 2), replan_s=call_backs.LONGEST_ROUND_S + 60) == [90]


def two_queues(hours):
    """Elastic jobs of both arrays, more than the nodes hold at any time; large ones come and go."""
    driver = Driver([node(number, 4) for number in (1, 2, 3)], replan_s=360.0, restart_cost_s=RESTART_S)
    for number in range(1, 61):
        sizes = (4, 8) if number % 3 == 0 else (1, 2, 3)
        length_s = 900.0 * (1 + number % 4)
        elastic = job(number, *sizes, tenant=1 + number % 2, movable=True, age_s=length_s)
        driver.submit(elastic, length_s * sizes[0] ** 0.9, at_s=120.0 * number)
    driver.run(hours * 3600.0)
    return driver


def restarts_an_hour(driver):
    loads = driver.loads.values()
    return sum(load.restarts for load in loads) / (sum(load.ran_s for load in loads) / 3600.0)


@pytest.mark.slow
def test_owners_and_borrowers_do_not_stop_one_another_in_turns(monkeypatch):
    """A job-hour holds at most 3600 / (10 S) restarts: what re-plans keep to, call-backs keep to as well."""
    calm = restarts_an_hour(two_queues(1))
    assert calm <= 3600 / (10 * RESTART_S)
    monkeypatch.setattr(call_backs, "_may_be_called", lambda *_: True)
    assert restarts_an_hour(two_queues(1)) > 1.3 * calm


@pytest.mark.parametrize("policy", ["coda", "berth"])
def test_an_owner_gets_its_nodes_within_two_rounds(policy):
    """However many elastic borrowers hold them."""
    driver = Driver([node(1, 4), node(2, 4)], policy=policy, replan_s=360.0, restart_cost_s=RESTART_S)
    for number in range(2, 12):
        driver.submit(job(number, 1, 2, tenant=2, movable=True, age_s=9000), 9000.0)
    driver.submit(job(1, 4, age_s=600), 600.0, at_s=400.0)
    driver.run(400.0 + 2 * 360.0 + 10 * RESTART_S)
    assert driver.loads[1].attempt is not None or driver.loads[1].ended_s is not None
