"""Each rule of `berth` can be left out: it is then not followed, and what is planned is sound all the same."""

import functools
import math
from dataclasses import replace

import pytest

from scheduler.parameters import PARAMETERS, Parameters
from scheduler.rules import BY_SWITCH, CALL_BACKS, PROMISES, RESERVATIONS, RULES, STAGES, URGENT, without
from tests.scheduler.builders import job, node
from tests.scheduler.driver import Driver


@functools.cache
def history(rule, *, replan_s=300.0):
    """Three tenants on three nodes of two types: elastic, rigid, whole nodes, and more than a node; CPU jobs beside them."""
    nodes = [node(1, 8), node(2, 4), node(3, 4, gpu_type="b")]
    driver = Driver(nodes, replan_s=replan_s, logged=rule in {None, STAGES})
    driver.engine.parameters = with_rule_off(driver.engine.parameters, rule)
    driver.engine._limitless = replace(driver.engine.parameters, time_limit_s=1e9)
    for number in range(1, 10):
        sizes = ((1, 2, 4), (2,), (8,), (1,), (4, 8), (3,))[number % 6]
        each = job(number, *sizes, tenant=number % 3 + 1, movable=len(sizes) > 1, age_s=300.0 * (1 + number % 4))
        driver.submit(each, 600.0 * sizes[0] ** 0.9, at_s=60.0 * number)
    driver.run(5400.0)
    return driver


def with_rule_off(parameters, rule):
    return parameters if rule is None else without(parameters, rule)


def test_whatever_is_left_out_every_plan_is_sound_and_every_job_ends(subtests):
    for rule in [None, *RULES]:
        with subtests.test(rule=rule):
            driver = history(rule)  # what is decided is checked for feasibility each time
            assert all(load.ended_s is not None for load in driver.loads.values())


def test_a_switch_is_no_operators_knob():
    assert "off" not in {parameter.name for parameter in PARAMETERS}
    assert Parameters().off == ()
    assert all(without(Parameters(), rule).off == (rule,) for rule in BY_SWITCH)
    assert all(without(Parameters(), rule) != Parameters() for rule in RULES)
    with pytest.raises(KeyError, match="none such"):
        without(Parameters(), "none such")


def borrowed(rule):
    """Node 1 is gpu-large's, node 2 gpu-small's; job 3 borrows of gpu-large, whose own job 5 then comes."""
    driver = Driver([node(1, 4), node(2, 4)], replan_s=86_400, large_array_share=0.5, logged=True)
    driver.engine._limitless = replace(with_rule_off(driver.engine.parameters, rule), time_limit_s=1e9)
    driver.submit(job(1, 1, age_s=600), 600.0)
    driver.submit(job(2, 3, age_s=600), 600.0 * 3**0.9)
    driver.submit(job(3, 2, tenant=2, movable=True, age_s=3000), 3000.0 * 2**0.9)
    driver.submit(job(5, 4, tenant=3, age_s=1000), 1000.0 * 4**0.9, at_s=200)
    driver.run(230)
    return driver


def test_without_call_backs_owners_wait_for_borrowers():
    assert borrowed(None).loads[3].causes == ["call-back"]
    assert borrowed(CALL_BACKS).loads[3].causes == []


def test_without_promises_nothing_is_kept_for_whom_it_was_freed():
    assert any(made.promises for made in borrowed(None).log)
    assert not any(made.promises for made in borrowed(PROMISES).log)


def starving(rule):
    """A job of 3 GPUs waits while jobs of two, which come one after another and cannot be stopped, hold two or four of four."""
    driver = Driver([node(1, 4)], replan_s=86_400)
    driver.engine._limitless = replace(with_rule_off(driver.engine.parameters, rule), time_limit_s=1e9)
    driver.submit(job(1, 3, age_s=100), 100.0 * 3**0.9, at_s=10)
    for number in range(2, 12):
        driver.submit(job(number, 2, tenant=2, age_s=400), 400.0 * 2**0.9, at_s=150.0 * (number - 2))
    driver.run(3600.0)
    return driver


def test_without_reservations_small_jobs_go_by_a_large_one():
    assert starving(None).loads[1].first_started_s < starving(RESERVATIONS).loads[1].first_started_s


def test_without_stages_the_whole_window_is_the_front():
    sides = [
        {decision.standing.side for made in history(rule).log for decision in made.decisions if decision.standing}
        for rule in (None, STAGES)
    ]
    assert len(sides[0]) > len(sides[1])


def hurried(rule):
    """An elastic job holds the node; just after a re-plan a job of a minute comes, which is urgent after another."""
    driver = Driver([node(1, 4)], replan_s=1200)
    driver.engine._limitless = replace(with_rule_off(driver.engine.parameters, rule), time_limit_s=1e9)
    driver.submit(job(1, 1, 2, 4, movable=True, age_s=20_000), 20_000.0)
    driver.submit(job(2, 1, tenant=2, expected_duration_s=60), 60.0, at_s=1230)
    driver.run(3600.0)
    return driver


@pytest.mark.parametrize("rule", [URGENT, "early rounds"])
def test_without_urgent_jobs_or_early_rounds_a_short_job_waits_for_the_next_round(rule):
    assert hurried(None).loads[2].first_started_s < 1500 < (hurried(rule).loads[2].first_started_s or math.inf)
