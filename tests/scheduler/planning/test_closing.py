"""Nodes that close: where a job may begin (decision 0271), under every policy and in both formulations."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.estimator.lengths import ASSUMED, GUESS_SPREAD, LATE, Length
from scheduler.fairness.reservation import soonest
from scheduler.model import Piece, Promise, Running, Share
from scheduler.placement import joint
from scheduler.placement.feasibility import whole_offers
from scheduler.planning.closing import coarse, needed_s
from scheduler.policies.registry import POLICIES
from scheduler.simulator.rivals import RIVALS
from tests.scheduler.builders import NOW_S, job, make_plan, node, past_of, where, why

HOUR = 3600.0
ANEW = {"movable": True}
SAVES = {"movable": True, "saves": True}
EVERY = sorted({*POLICIES, *RIVALS})


def needed(length=Length(HOUR, "", 0.7, runs=9), ran_s=0.0, **more):  # noqa: B008 - a value
    return needed_s(job(1, 1, attained_gpu_s=ran_s, **more), length, 60.0)


# ---- the rule --------------------------------------------------------------------------------------------------------


def test_a_recorded_length_counts_at_its_late_quantile():
    assert needed() == Length(HOUR, "", 0.7).quantile(LATE) > 1.5 * HOUR


def test_without_a_record_the_expected_length_counts():
    assert needed(Length(HOUR, ASSUMED, GUESS_SPREAD)) == pytest.approx(HOUR)


def test_a_time_limit_bounds_it():
    assert needed(Length(HOUR, "", 0.7, runs=9).within(600.0)) == 600.0


def test_who_saves_needs_ten_restarts_or_its_rest():
    sure = Length(HOUR, "")
    assert needed(**SAVES) == 600.0
    assert needed(Length(120.0, ""), **SAVES) == 120.0
    assert needed(sure, HOUR - 90.0, **SAVES) == pytest.approx(90.0)
    assert needed(sure, 2 * HOUR, **SAVES) == 600.0


def test_who_starts_anew_needs_its_expected_length_given_how_long_it_ran():
    assert needed(**ANEW) == pytest.approx(HOUR)
    for ran_s in (HOUR, 2 * HOUR, 4 * HOUR):
        assert needed(ran_s=ran_s, **ANEW) > 1.1 * ran_s


@given(st.floats(1e-3, 1e9))
def test_needs_are_rounded_up_by_an_eighth_at_most(seconds):
    assert seconds <= coarse(seconds) <= seconds * 1.125


def test_needs_of_an_hour_to_a_day_are_few():
    assert len({coarse(float(seconds)) for seconds in range(3600, 86_400)}) < 40


# ---- plans -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "starts"),
    [
        ({"age_s": 1800.0}, True),
        ({"age_s": HOUR}, False),
        ({"age_s": HOUR, **ANEW}, False),
        ({"age_s": HOUR, **SAVES}, True),
        ({"age_s": HOUR, "limit_s": 900.0}, True),
    ],
)
def test_who_begins_on_a_node_that_closes_in_an_hour(more, starts):
    made = make_plan([node(1, closes_s=NOW_S + HOUR - 60.0)], [job(1, 1, **more)])
    assert (1 in where(made)) == starts
    assert why(made) == ({} if starts else {1: "nodes-close"})


def test_a_job_of_which_nothing_is_known_counts_as_one_of_an_hour():
    unknown = job(1, 1, age_s=None)
    assert 1 not in where(make_plan([node(1, closes_s=NOW_S + 0.9 * HOUR)], [unknown]))
    assert 1 in where(make_plan([node(1, closes_s=NOW_S + 1.2 * HOUR)], [unknown]))


def test_a_job_of_seconds_needs_seconds_and_no_tick():
    assert 1 in where(make_plan([node(1, closes_s=NOW_S + 5.0)], [job(1, 1, age_s=None, expected_duration_s=4.0)]))


def test_the_record_of_its_kind_counts():
    history = past_of(*[(ran_s, 1, None) for ran_s in (600.0, 900.0, 3000.0, 3500.0)])
    asked = job(1, 1, age_s=None)
    assert 1 not in where(make_plan([node(1, closes_s=NOW_S + 2100.0)], [asked], history=history))
    assert 1 in where(make_plan([node(1, closes_s=NOW_S + 2100.0)], [replace(asked, **ANEW)], history=history))


def test_a_long_job_takes_the_node_that_stays():
    nodes = [node(1, 1, closes_s=NOW_S + 900.0), node(2, 1)]
    assert where(make_plan(nodes, [job(1, 1, age_s=HOUR), job(2, 1, age_s=300.0)])) == {1: {2: 1}, 2: {1: 1}}


def test_a_promise_lapses_on_a_node_that_closes_too_soon():
    def settled(closes_s):
        given = Promise((Share(1, 1, 1, 0),), NOW_S - 30.0, "preempt")
        other = Running(9, 2, (Piece(1, (0,), (0,), 0),), stopping=True)
        hosts = [node(1, 1, idle=0, closes_s=closes_s)]
        return make_plan(hosts, [job(1, 1, age_s=HOUR, promise=given)], running=[other]).lapsed

    assert settled(NOW_S + 2 * HOUR) == ()
    assert settled(NOW_S + 900.0) == (1,)


def test_nothing_is_reserved_for_a_time_after_the_end():
    """Both nodes are full. The first is free sooner, but closes before the job would have ended there."""

    def reserved(closes_s):
        offers = [replace(each, gpus=0) for each in whole_offers([node(1, 4, closes_s=closes_s), node(2, 4)])]
        live = [
            Running(8, 2, (Piece(1, (0, 1, 2, 3), (0,), 0),), NOW_S - 60, expected_end_s=NOW_S + 600.0),
            Running(9, 2, (Piece(2, (0, 1, 2, 3), (0,), 0),), NOW_S - 60, expected_end_s=NOW_S + 7200.0),
        ]
        asked = job(1, 4, open_until_s=NOW_S + 1000.0)
        found = soonest(asked, offers, live, {"a100": 4}, NOW_S)
        return set(found.nodes)

    assert reserved(math.inf) == reserved(NOW_S + 1600.0) == {1}
    assert reserved(NOW_S + 1500.0) == {2}


# ---- every policy ----------------------------------------------------------------------------------------------------


ENDS = st.sampled_from((math.inf, 200.0, 700.0, HOUR, 20_000.0))


@st.composite
def clusters(draw):
    nodes = [
        node(number, 4, gpu_type=draw(st.sampled_from(("a", "b"))), closes_s=NOW_S + draw(ENDS), cores=16)
        for number in range(1, draw(st.integers(2, 5)))
    ]
    jobs = [
        job(
            number,
            *draw(st.sampled_from(((), (1,), (2,), (1, 2, 4), (6,)))),
            tenant=draw(st.integers(1, 2)),
            age_s=draw(st.sampled_from((None, 60.0, 600.0, HOUR, 10 * HOUR))),
            limit_s=draw(st.sampled_from((None, None, 500.0))),
            attained_gpu_s=draw(st.sampled_from((0.0, 0.0, 1800.0))),
            **draw(st.sampled_from(({}, ANEW, SAVES))),
        )
        for number in range(1, draw(st.integers(2, 9)))
    ]
    return nodes, jobs


def least_s(asked):
    """The rule in other words, for jobs whose length has no record: it was declared, or nothing is known."""
    expected_s = HOUR if asked.expected_duration_s is None else asked.expected_duration_s
    expected_s = min(expected_s, asked.limit_s or math.inf)
    return min(expected_s, 600.0) if asked.saves and not asked.attained_gpu_s else 1.0 if asked.saves else expected_s


@settings(deadline=None)
@given(clusters(), st.sampled_from(EVERY), st.booleans())
def test_no_policy_begins_a_job_where_it_would_be_stopped(cluster, policy, located):
    nodes, jobs = cluster
    with pytest.MonkeyPatch.context() as patch:
        if not located:
            patch.setattr(joint, "LOCATED_NODES", 0)
        made = make_plan(nodes, jobs, policy=policy, replan=True)
    known, hosts = {each.id: each for each in jobs}, {each.id: each for each in nodes}
    for placed in made.placements:
        for piece in placed.pieces:
            assert hosts[piece.node].closes_s - NOW_S >= least_s(known[placed.job])
    for given_to in made.promises:
        for share in given_to.shares:
            assert hosts[share.node].closes_s - NOW_S >= least_s(known[given_to.job])


@settings(deadline=None)
@given(clusters(), st.sampled_from(EVERY))
def test_ends_far_ahead_change_no_plan(cluster, policy):
    nodes, jobs = cluster
    far = make_plan([replace(each, closes_s=NOW_S + 1e7) for each in nodes], jobs, policy=policy, replan=True)
    never = make_plan([replace(each, closes_s=math.inf) for each in nodes], jobs, policy=policy, replan=True)
    assert where(far) == where(never)
    assert why(far) == why(never)
