"""What gains is decided by when a job would be over: not by its start, nor past its limit, nor where nobody knows how long it runs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.asking.offers import holds, offers_for
from scheduler.asking.over import standing_of
from scheduler.asking.starts.ranges import StartRange
from scheduler.asking.starts.scene import Experience
from scheduler.asking.what_if import Change, what_would_start
from scheduler.model import ClusterState, Reason, RunHistory
from tests.scheduler.asking.test_offers import KNOBS, live, state_of
from tests.scheduler.builders import NOW_S, job, node, ticking

SPEEDS = {"a100": 2.0, "t4": 1.0}


def offered(state, *, limit_s=None, **more):
    known = Experience(limits_s={} if limit_s is None else {1: limit_s}, **more)
    found = offers_for(state, 1, KNOBS, np.random.default_rng(1), ticking(), now_s=NOW_S, experience=known)
    return {(str(each.change), str(each.value)): each for each in found.offers}


def held(state, change, value, *, limit_s=None):
    known = Experience(limits_s={} if limit_s is None else {1: limit_s})
    rng = np.random.default_rng(1)
    return holds(state, 1, (change, value), KNOBS, rng, ticking(), now_s=NOW_S, experience=known)


def half_full(waiting, until_s=600):
    """A node of 4 GPUs of which 2 are idle now and the others in so many seconds."""
    return state_of([node(1, 4, idle=2)], [waiting], [live(91, 1, 2, NOW_S + until_s)])


@pytest.mark.parametrize(("age_s", "gains"), [(300, True), (3600, False), (86_400, False)])
def test_half_of_the_gpus_now_gain_only_where_the_job_is_over_sooner(age_s, gains):
    """It takes 1.87 times as long on them, so up to some ten minutes it gains."""
    state = half_full(job(1, 4, age_s=age_s))
    offer = offered(state)["size", "2"]
    assert (offer.now, offer.gains) == (True, gains)
    assert held(state, Change.SIZE, 2) == (True, gains), "a press is judged in the same way"
    if not gains:
        assert offer.verdict.why == "later"
        assert offer.later == {}


def test_a_job_that_its_time_limit_would_end_before_it_is_done_gains_nothing():
    state = half_full(job(1, 4, age_s=600.0), until_s=7200)
    assert offered(state)["size", "2"].gains
    late = offered(state, limit_s=1000.0)["size", "2"]
    assert (late.gains, late.verdict.why, late.verdict.over_s) == (False, "limit", None)
    assert held(state, Change.SIZE, 2, limit_s=1000.0) == (True, False)


def test_without_a_known_length_nothing_slower_is_a_gain_and_what_is_as_fast_is():
    state = half_full(job(1, 4, age_s=None), until_s=7200)
    slower = offered(state)["size", "2"]
    assert (slower.gains, slower.verdict.why, slower.verdict.over_s) == (False, "length", None)
    nodes, busy = [node(1, 4, idle=0), node(2, 4, gpu_type="h100")], [live(91, 1, 4, NOW_S + 7200)]
    other = state_of(nodes, [job(1, 4, age_s=None, gpu_types=frozenset({"a100"}))], busy)
    first = next(iter(offered(replace(other, gpu_speeds={"a100": 1.0, "h100": 1.0})).values()))
    assert (first.change, first.gains, first.verdict.over_s) == ("gpu-type", True, None)


@pytest.mark.parametrize(
    ("history", "declared", "known"),
    [
        (RunHistory(tenant_category_s={(1, "cv"): 60.0}), None, True),
        (RunHistory(category_s={"cv": 60.0}, cluster_s=60.0), None, False),
        (RunHistory(), 60.0, True),
    ],
    ids=["the tenant's jobs of the category", "anybody's jobs", "declared"],
)
def test_whose_past_says_how_long_it_runs(history, declared, known):
    waiting = job(1, 4, age_s=None, category="cv", expected_duration_s=declared)
    offer = offered(replace(half_full(waiting), history=history))["size", "2"]
    assert offer.gains is known


def test_a_slower_type_now_against_the_faster_one_later():
    nodes, busy = [node(1, 4, idle=0), node(2, 4, gpu_type="t4")], [live(91, 1, 4, NOW_S + 600)]
    for age_s, gains in ((200.0, True), (7200.0, False)):
        waiting = job(1, 4, age_s=age_s, gpu_types=frozenset({"a100"}))
        state = replace(state_of(nodes, [waiting], busy), gpu_speeds=SPEEDS)
        assert offered(state)["gpu-type", "['t4']"].gains is gains


def test_a_later_start_is_judged_by_its_end_too():
    """The other type is free in ten minutes, its own in twenty; there it would run twice as long."""
    nodes = [node(1, 4, idle=0), node(2, 4, idle=0, gpu_type="t4")]
    busy = [live(91, 1, 4, NOW_S + 1800), live(92, 2, 4, NOW_S + 300)]
    for age_s, gains in ((300.0, True), (36_000.0, False)):
        waiting = job(1, 4, age_s=age_s, gpu_types=frozenset({"a100"}))
        state = replace(state_of(nodes, [waiting], busy), gpu_speeds=SPEEDS)
        offer = offered(state)["gpu-type", "['t4']"]
        assert (offer.now, offer.gains) == (False, gains)
        assert held(state, Change.GPU_TYPE, ["t4"]) == (False, gains)


def test_fewer_cores_of_a_cpu_job_count_as_so_much_slower():
    busy = live(91, 1, 0, NOW_S + 600)
    busy = replace(busy, pieces=(replace(busy.pieces[0], gpus=(), cores=tuple(range(12))),), requirement=(0,))
    for age_s, gains in ((120.0, True), (3600.0, False)):
        state = state_of([node(1, 0, cores=16, idle_cores=4)], [job(1, cores=16, age_s=age_s)], [busy])
        assert offered(state)["cores", "4"].gains is gains


def test_a_job_that_never_starts_as_it_stands_gains_by_any_end_within_its_limit():
    state = state_of([node(1, 8)], [job(1, 16, age_s=86_400.0)])
    assert all(each.gains for each in offered(state).values())
    late = offered(state, limit_s=90_000.0)["size", "1"]
    assert (late.gains, late.verdict.why) == (False, "limit")


def test_what_earlier_attempts_ran_is_not_run_again():
    """A day's job of which an hour is left: at half its size it is over sooner than with two hours of waiting."""
    state = half_full(job(1, 4, age_s=86_400.0), until_s=7200)
    assert not offered(state)["size", "2"].gains
    assert offered(state, ran_s={1: 86_400.0 - 3600.0})["size", "2"].gains
    told = replace(state, jobs=[replace(state.jobs[0], done_fraction=1 - 1 / 24)])
    assert offered(told)["size", "2"].gains


@given(
    age_s=st.floats(60, 200_000) | st.none(),
    until_s=st.floats(60, 50_000),
    limit_s=st.none() | st.floats(60, 300_000),
    idle=st.integers(1, 7),
)
def test_nothing_offered_as_a_gain_ends_later_or_past_its_limit(age_s, until_s, limit_s, idle):
    """Asked with another formula: 0.9 is how the core assumes that speed grows with the GPUs."""
    state = state_of([node(1, 8, idle=idle)], [job(1, 8, age_s=age_s)], [live(91, 1, 8 - idle, NOW_S + until_s)])
    known = Experience(limits_s={} if limit_s is None else {1: limit_s})
    asked = offers_for(state, 1, KNOBS, np.random.default_rng(1), ticking(), now_s=NOW_S, experience=known)
    gains = [each.gains for each in asked.offers]
    assert gains == sorted(gains, reverse=True), "gains come first"
    for each in asked.offers:
        if each.gains and each.change is Change.SIZE:
            assert age_s is not None
            starts_s, takes_s = asked.start.median_s or NOW_S + 24 * 3600.0, age_s * (8 / each.remedy.gpus) ** 0.9
            assert NOW_S + takes_s < starts_s + age_s
            assert limit_s is None or takes_s <= limit_s * 1.001


def test_the_length_of_a_job_of_several_sizes_is_that_of_the_size_it_gets():
    """Its 4000 s are those of 3 GPUs, the mean: with 4 it takes 3088 s, and with 1 so much that an hour's limit ends it."""
    state = state_of([node(1, 4, idle=1)], [job(1, 2, 4, age_s=4000.0)], [live(91, 1, 3, NOW_S + 36_000)])
    late = offered(state, limit_s=10_000.0)["size", "1"]
    assert (late.gains, late.verdict.why) == (False, "limit")
    offer = offered(state)["size", "1"]
    assert offer.gains
    assert offer.verdict.over_s == pytest.approx(NOW_S + 4000 * 3**0.9, rel=0.01)


def remedies(state, *, start_s=None):
    told = None if start_s is None else StartRange(start_s, start_s, start_s, 1)
    stands = partial(standing_of, state, state.jobs[0], KNOBS, now_s=NOW_S, found=told)
    found = what_would_start(state, 1, KNOBS, np.random.default_rng(1), ticking(), now_s=NOW_S, standing=stands)
    return {str(each.change): each for each in found}


def test_what_if_says_that_a_change_gains_nothing_and_puts_it_behind_the_others():
    state = half_full(job(1, 4, age_s=3600.0))
    found = remedies(state, start_s=NOW_S + 600)
    assert found["size"].starts
    assert found["size"].sentence.endswith("But it would be over later than as it stands.")
    assert remedies(state, start_s=NOW_S + 36_000)["size"].no_gain is None
    assert "is not known" in remedies(state)["size"].sentence, "nobody said when it starts as it stands"
    unknown = half_full(job(1, 4, age_s=None))
    assert "expected_duration_s" in remedies(unknown, start_s=NOW_S + 36_000)["size"].sentence


def test_what_is_held_gains_by_its_release_and_without_its_checkpoint_all_is_run_again():
    waiting = job(1, 1, eligible=False, ineligible_reason=Reason.HELD)
    assert remedies(state_of([node(1)], [waiting]))["release"].no_gain is None
    nodes = [node(1, 4, idle=0, storage_domain="nfs"), node(2, 4)]
    bound = job(1, 1, checkpoint_domain="nfs", age_s=36_000.0, done_fraction=0.9)
    state = ClusterState(nodes, [bound], [live(91, 1, 4, NOW_S + 600)], (), {})
    assert remedies(state, start_s=NOW_S + 600)["checkpoint"].no_gain == "later"
    assert remedies(state, start_s=NOW_S + 80_000)["checkpoint"].no_gain is None
