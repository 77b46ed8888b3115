"""Lengths as distributions: of declared ones, of jobs like it, their certainty, and their quantiles after a time of running."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.estimator.lengths import (
    ASSUMED,
    DECLARED,
    OF_CLUSTER,
    OF_LIMITS,
    OF_MODEL,
    OF_OWNER,
    OF_TENANT,
    Length,
    certainty_of,
    is_sure,
    length_of,
    trusts_of,
)
from scheduler.estimator.record import Ran, Record
from scheduler.estimator.similar import similar_of
from scheduler.fairness.lrf import age_of, ages
from scheduler.model import RunHistory, Sample
from tests.scheduler.builders import job, past_of

lengths = st.builds(Length, st.floats(1.0, 1e7), st.just(""), st.floats(0.0, 4.0))


def asked(*requirement, **more):
    return job(1, *requirement, age_s=None, **more)


def test_what_is_told_is_sure_until_its_owner_proves_otherwise():
    told = length_of(asked(1, expected_duration_s=100.0), RunHistory())
    assert (told.median_s, told.source, told.certainty) == (100.0, DECLARED, pytest.approx(0.8))
    true = length_of(asked(1, expected_duration_s=100.0), past_of(told={1: [1.0] * 200}))
    assert true.certainty > 0.99
    wild = length_of(asked(1, expected_duration_s=100.0), past_of(told={1: [0.01, 1.0, 100.0] * 20}))
    assert not is_sure(wild.spread)


def test_the_group_that_foretells_best_counts_and_a_group_of_one_never_does():
    models = [(600.0 * (1 + k % 3 / 10), 1, "cv", "resnet", 1) for k in range(12)]
    others = [(10.0 ** (k % 5 + 1), 2, "cv", None, 1) for k in range(60)]
    known = length_of(asked(1, model_label="resnet", category="cv"), past_of(*models, *others))
    assert (known.source, known.median_s) == (OF_MODEL, 660.0)
    single = length_of(asked(2, tenant=3), past_of((5.0, 3, None, None, 2), *others))
    assert single.source == OF_CLUSTER
    assert length_of(asked(1), RunHistory()) == Length(3600.0, ASSUMED, 3.0)


def test_errors_of_late_widen_ranges_and_never_narrow_them():
    runs = [(100.0 + k % 7, 1, "cv", None, 1) for k in range(40)]
    plain = past_of(*runs)
    wrong = RunHistory(plain.told, plain.like, Sample([50.0] * 40))
    right = RunHistory(plain.told, plain.like, Sample([0.1] * 40))
    spreads = [length_of(asked(1, category="cv"), each).spread for each in (plain, right, wrong)]
    assert spreads[0] == spreads[1] < spreads[2]


@given(lengths, st.floats(0.01, 0.99), st.floats(0.01, 0.99), st.floats(0.0, 1e7))
def test_quantiles_rise_with_the_part_and_with_what_has_run(length, part, other, ran_s):
    low, high = sorted((part, other))
    assert length.quantile(low, ran_s) <= length.quantile(high, ran_s)
    assert not length.spread or length.quantile(part, ran_s) >= max(ran_s, length.quantile(part)) * (1 - 1e-9)
    assert math.isfinite(length.quantile(high, ran_s))


@given(
    st.lists(st.tuples(st.floats(1.0, 1e6), st.floats(1.0, 10.0) | st.none()), max_size=30),
    st.floats(1.0, 1e6),
    st.floats(1.0, 1e6) | st.none(),
    st.floats(0.01, 0.99),
)
def test_no_length_is_longer_than_the_time_limit(runs, limit_s, declared_s, part):
    record = Record()
    for took_s, times in runs:
        record.learn(Ran(took_s, None, 1, 1, None, None, 1, limit_s=times and took_s * times))
    asked_for = asked(1, limit_s=limit_s, expected_duration_s=declared_s)
    length = length_of(asked_for, record.history)
    assert length.quantile(part) <= length.quantile(0.999) <= limit_s
    assert length.quantile(part, ran_s=limit_s / 2) <= limit_s
    every = ages(record.history, tick_s=0.001, samples_per_s=lambda _: {}, gpus_by_type={})
    age = age_of(asked_for, record.history, tick_s=0.001)
    assert every(asked_for) == age == (length.median_s, length.source, length.spread)
    assert every.of_all([asked_for]).ages_s == [age.age_s]


def test_a_time_limit_is_read_by_what_its_owner_uses_of_limits():
    record = Record()
    for place in range(40):  # lengths differ a thousandfold, and each takes a twelfth of its limit
        took_s = 10.0 * 1.2**place
        record.learn(Ran(took_s, None, 1, 1, "cv", None, 1, limit_s=12 * took_s))
    length = length_of(asked(1, category="cv", limit_s=86_400.0), record.history)
    assert (length.source, length.median_s) == (OF_LIMITS, pytest.approx(7200.0))
    other = length_of(asked(1, category="cv", tenant=2, limit_s=500.0), record.history)
    assert other.source != OF_LIMITS
    assert other.quantile(0.9) == 500.0, "another owner's limit is a bound only"
    without = length_of(asked(1, category="cv"), record.history)
    assert (without.source, without.most_s) == (OF_TENANT, math.inf)


def test_a_duration_is_proposed_from_three_runs_of_the_tenant_that_took_about_as_long():
    others = [(5000.0 + place, 2, "cv", None, 1) for place in range(50)]
    two = [(600.0, 1, "cv", None, 1), (660.0, 1, "cv", None, 1)]
    assert similar_of(past_of(*others, *two), 1, 1, "cv", None, 1) is None, "never from another tenant's"
    three = past_of(*others, *two, (720.0, 1, "cv", None, 1))
    assert similar_of(three, 1, 1, "cv", None, 1) == (OF_OWNER, 3, 600.0, 660.0, 720.0)
    assert similar_of(three, 9, 1, "cv", None, 1) == (OF_TENANT, 3, 600.0, 660.0, 720.0), "a colleague's first one"
    assert similar_of(three, 1, 3, "cv", None, 1) is None, "the same owner in another tenant"
    wild = [(10.0 ** (place % 4 + 1), 1, "cv", None, 1) for place in range(40)]
    assert similar_of(past_of(*others, *wild), 1, 1, "cv", None, 1) is None
    labelled = [(300.0 + place, 1, "cv", "resnet", 1) for place in range(4)]
    mixed = past_of(*others, *wild, *labelled)
    assert similar_of(mixed, 1, 1, "cv", "resnet", 1)[:2] == (OF_MODEL, 4), "the group that differs too much hides none"


def test_what_has_run_on_for_ever_is_not_about_to_end():
    """Beyond eight spreads a distribution function is 1 to the last digit, and the rest of it nothing."""
    for times in (10.0, 1e3, 1e5, 1e9):
        assert Length(60.0, "", 0.7).quantile(0.8, 60.0 * times) > 1.02 * 60.0 * times


def test_who_declares_a_second_for_everything_is_believed_no_more():
    """Its jobs run for a day. One such day is enough; a job that ran a few times longer is not."""
    runs = [(86_400.0 * (1 + k % 3 / 10), 1, "cv", None, 1) for k in range(20)]
    liar = length_of(asked(1, expected_duration_s=1.0, category="cv"), past_of(*runs, told={1: [86_400.0] * 20}))
    assert (liar.source, liar.median_s) == (OF_OWNER, pytest.approx(95_040.0))
    assert not is_sure(liar.deciding.spread)
    assert not is_sure(length_of(asked(1, expected_duration_s=1.0), past_of(told={1: [86_400.0]})).spread)
    assert is_sure(length_of(asked(1, expected_duration_s=600.0), past_of(told={1: [6.0] * 20})).spread)


@given(st.floats(0.0, 10.0), st.floats(0.0, 10.0))
def test_certainty_falls_with_the_spread_from_1_to_0(spread, more):
    assert 1.0 >= certainty_of(spread) >= certainty_of(spread + more) > 0.0
    assert certainty_of(0.0) == 1.0
    trusts = trusts_of(np.array([spread, spread + more]))
    assert (trusts[0] >= 1.0) == is_sure(spread)


def test_a_sample_is_the_same_however_its_values_came():
    grown = Sample()
    for value in (3.0, 1.0, math.nan, 9.0, -1.0, 0.0, math.inf, 2.0):
        grown.add(value)
    grown.remove(9.0)
    made = Sample([1.0, 2.0, 3.0])
    assert (grown, len(grown), grown.median) == (made, 3, 2.0)
    assert grown.variance == pytest.approx(made.variance)
