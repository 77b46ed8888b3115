"""Rank correlation, autocorrelation and forecast, by hand and by their invariants (Kube-Knots eq. 1 to 3)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.sharing.series import autocorrelation, first_order, forecast, ranks, resampled, whole_ranks


def spearman(one, other):
    (own, scale), (ranked, other_scale) = whole_ranks(one), whole_ranks(other)
    return float(own @ ranked) * float(scale * other_scale)


NUMBERS = st.lists(st.integers(0, 6).map(float), min_size=5, max_size=20)


def test_equal_values_share_the_mean_of_their_ranks():
    assert list(ranks([10, 30, 20, 20])) == [1, 4, 2.5, 2.5]


def test_rows_are_ranked_each_for_itself():
    assert [list(row) for row in ranks([[3, 1, 2], [5, 5, 1]])] == [[3, 1, 2], [2.5, 2.5, 1]]


@settings(deadline=None)
@given(st.permutations(range(8)), st.permutations(range(8)))
def test_without_equal_values_it_is_the_papers_equation_1(one, other):
    squares = sum((a - b) ** 2 for a, b in zip(one, other, strict=True))
    assert spearman(one, other) == pytest.approx(1 - 6 * squares / (8 * (64 - 1)))


@settings(deadline=None)
@given(NUMBERS)
def test_a_series_goes_with_itself_and_against_its_mirror_and_nothing_goes_with_a_constant(values):
    series = np.array(values)
    moves = len(set(values)) > 1
    assert spearman(series, series) == pytest.approx(1.0 if moves else 0.0)
    assert spearman(series, -series) == pytest.approx(-1.0 if moves else 0.0)
    assert spearman(series, np.ones(len(series))) == 0.0


def test_autocorrelation_by_hand():
    """1 2 3 4 5: mean 3; (-2)(-1) + (-1)(0) + (0)(1) + (1)(2) = 4 over 4 + 1 + 0 + 1 + 4 = 10."""
    assert autocorrelation([1, 2, 3, 4, 5]) == pytest.approx(0.4)
    assert autocorrelation([1, 2, 3, 4, 5], lag=2) == pytest.approx(-0.1)
    assert autocorrelation([1, -1, 1, -1]) == pytest.approx(-0.75)
    assert autocorrelation([7, 7, 7]) == 0.0


@pytest.mark.parametrize("lag", [0, 3])
def test_a_lag_outside_the_series_is_refused(lag):
    with pytest.raises(ValueError, match="no autocorrelation"):
        autocorrelation([1, 2, 3], lag)


@settings(deadline=None)
@given(st.floats(-0.9, 0.9), st.floats(-5, 5), st.floats(-5, 5))
def test_a_first_order_series_is_found_again_and_followed(phi, mu, start):
    series = [start]
    for _ in range(7):
        series.append(mu + phi * series[-1])
    found = forecast(series[:6], 2)
    assert found == pytest.approx(series[7], abs=1e-3)


def test_a_constant_series_stays_and_a_line_goes_on():
    assert first_order([4, 4, 4, 4]) == (0.0, 1.0)
    assert forecast([4, 4, 4, 4, 4], 10) == 4.0
    assert forecast([100, 200, 300, 400, 500], 3) == pytest.approx(800)


@settings(deadline=None)
@given(NUMBERS, st.integers(1, 70))
def test_resampling_keeps_the_mean_and_the_range(values, points):
    found = resampled(values, points)
    assert len(found) == points
    assert found.mean() == pytest.approx(np.mean(values))
    assert found.min() >= min(values) - 1e-7
    assert found.max() <= max(values) + 1e-7


def test_a_series_of_the_asked_length_stays_and_an_empty_one_is_refused():
    assert list(resampled([1, 5, 2], 3)) == [1, 5, 2]
    assert list(resampled([1, 5], 4)) == [1, 1, 5, 5]
    with pytest.raises(ValueError, match="empty"):
        resampled([], 4)
