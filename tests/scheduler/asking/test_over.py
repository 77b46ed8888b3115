"""A gain is an earlier end: not a sooner start, nor an end past the limit, nor a guess where nobody knows how long it runs."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.asking.changes import Kind
from scheduler.model import Reason, RunHistory
from tests.scheduler.asking.builders import asked, found, half_full, live, state_of, two_types
from tests.scheduler.builders import NOW_S, job, node, past_of

SPEEDS = {"a100": 2.0, "t4": 1.0}
A100 = frozenset({"a100"})


def limited(limit_s):
    return {"limits_s": {1: limit_s}}


def half_cpu(age_s):
    """A CPU job of 16 cores on a node that has 4 idle."""
    busy = live(91, 1, 0, NOW_S + 600)
    busy = replace(busy, pieces=(replace(busy.pieces[0], gpus=(), cores=tuple(range(12))),), requirement=(0,))
    return state_of([node(1, 0, cores=16, idle_cores=4)], [job(1, cores=16, age_s=age_s)], [busy])


def test_a_change_gains_only_where_the_job_is_over_sooner(subtests):
    for state, kind, gains in [
        (half_full(job(1, 4, age_s=300)), "size", True),
        (half_full(job(1, 4, age_s=3600)), "size", False),
        (half_full(job(1, 4, age_s=86_400)), "size", False),
        (two_types(job(1, 4, age_s=200.0, gpu_types=A100), 600, speeds=SPEEDS), "gpu-type", True),
        (two_types(job(1, 4, age_s=7200.0, gpu_types=A100), 600, speeds=SPEEDS), "gpu-type", False),
        (two_types(job(1, 4, age_s=300.0, gpu_types=A100), 1800, 300, SPEEDS), "gpu-type", True),
        (two_types(job(1, 4, age_s=36_000.0, gpu_types=A100), 1800, 300, SPEEDS), "gpu-type", False),
        (half_cpu(120.0), "cores", True),
        (half_cpu(3600.0), "cores", False),
    ]:
        with subtests.test(state=state, kind=kind):
            each = found(state, kind, {"size": "2"}.get(kind))
            assert each.gains is gains
            if not gains:
                assert (each.verdict.why, each.later) == ("later", {})


def test_a_job_that_its_time_limit_would_end_before_it_is_done_gains_nothing():
    state = half_full(job(1, 4, age_s=600.0), until_s=7200)
    assert found(state, "size", "2").gains
    late = found(state, "size", "2", **limited(1000.0))
    assert (late.gains, late.verdict.why, late.verdict.over_s) == (False, "limit", None)


def test_without_a_known_length_nothing_slower_is_a_gain_and_what_is_as_fast_is():
    slower = found(half_full(job(1, 4, age_s=None), until_s=7200), "size", "2")
    assert (slower.gains, slower.verdict.why, slower.verdict.over_s) == (False, "length", None)
    assert "expected_duration_s" in slower.sentence
    same = two_types(job(1, 4, age_s=None, gpu_types=A100), 7200, speeds={"a100": 1.0, "t4": 1.0})
    first = asked(same).offers[0]
    assert (first.kind, first.gains, first.verdict.over_s) == ("gpu-type", True, None)


@pytest.mark.parametrize(
    ("history", "declared", "known"),
    [
        (past_of((60.0, 1, "cv")), None, True),
        (past_of((60.0, 2, "cv")), None, False),
        (RunHistory(), 60.0, True),
    ],
    ids=["the tenant's jobs of the category", "anybody's jobs", "declared"],
)
def test_whose_past_says_how_long_it_runs(history, declared, known):
    waiting = job(1, 4, age_s=None, category="cv", expected_duration_s=declared)
    assert found(replace(half_full(waiting), history=history), "size", "2").gains is known


def test_a_job_that_never_starts_as_it_stands_gains_by_any_end_within_its_limit():
    state = state_of([node(1, 8)], [job(1, 16, age_s=86_400.0)])
    assert all(each.gains for each in asked(state).offers)
    late = found(state, "size", "1", **limited(90_000.0))
    assert (late.gains, late.verdict.why) == (False, "limit")


def test_what_earlier_attempts_ran_is_not_run_again():
    """A day's job of which an hour is left: at half its size it is over sooner than with two hours of waiting."""
    state = half_full(job(1, 4, age_s=86_400.0), until_s=7200)
    assert not found(state, "size", "2").gains
    assert found(state, "size", "2", ran_s={1: 86_400.0 - 3600.0}).gains
    told = replace(state, jobs=[replace(state.jobs[0], done_fraction=1 - 1 / 24)])
    assert found(told, "size", "2").gains


@given(
    age_s=st.floats(60, 200_000) | st.none(),
    until_s=st.floats(60, 50_000),
    limit_s=st.none() | st.floats(60, 300_000),
    idle=st.integers(1, 7),
)
def test_nothing_offered_as_a_gain_ends_later_or_past_its_limit(age_s, until_s, limit_s, idle):
    """Asked with another formula: 0.9 is how the core assumes that speed grows with the GPUs."""
    state = state_of([node(1, 8, idle=idle)], [job(1, 8, age_s=age_s)], [live(91, 1, 8 - idle, NOW_S + until_s)])
    answer = asked(state, **({} if limit_s is None else limited(limit_s)))
    for each in answer.offers:
        if each.gains and each.kind is Kind.SIZE:
            assert age_s is not None
            starts_s, takes_s = answer.start.median_s or NOW_S + 24 * 3600.0, age_s * (8 / each.gpus) ** 0.9
            assert NOW_S + takes_s < starts_s + age_s
            assert limit_s is None or takes_s <= limit_s * 1.001


def test_the_length_of_a_job_of_several_sizes_is_that_of_the_size_it_gets():
    """Its 4000 s are those of 3 GPUs, the mean: with 4 it takes 3088 s, and with 1 so much that an hour's limit ends it."""
    state = state_of([node(1, 4, idle=1)], [job(1, 2, 4, age_s=4000.0)], [live(91, 1, 3, NOW_S + 36_000)])
    late = found(state, "size", "1", **limited(10_000.0))
    assert (late.gains, late.verdict.why) == (False, "limit")
    offer = found(state, "size", "1")
    assert offer.gains
    assert offer.verdict.over_s == pytest.approx(NOW_S + 4000 * 3**0.9, rel=0.01)


def test_what_gains_nothing_says_so_and_comes_behind_the_others():
    each = found(half_full(job(1, 4, age_s=3600.0)), "size", "2")
    assert each.starts
    assert each.sentence.endswith("But it would be over later than as it stands.")
    assert found(half_full(job(1, 4, age_s=3600.0), 36_000), "size", "2").verdict.why is None


def test_what_is_held_gains_by_its_release_and_without_its_checkpoint_all_is_run_again():
    waiting = job(1, 1, eligible=False, ineligible_reason=Reason.HELD)
    assert found(state_of([node(1)], [waiting]), "release").gains
    nodes = [node(1, 4, idle=0, storage_domain="nfs"), node(2, 4)]
    bound = job(1, 1, checkpoint_domain="nfs", age_s=36_000.0, done_fraction=0.9)
    for until_s, why in ((600, "later"), (80_000, None)):
        state = state_of(nodes, [bound], [live(91, 1, 4, NOW_S + until_s)])
        assert found(state, "checkpoint").verdict.why == why
