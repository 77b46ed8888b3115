"""Prices of idle parts of GPUs."""

import numpy as np
import pytest

from scheduler.planning.gaps import gap_worth


def test_a_gap_is_worth_the_price_of_what_fits_there():
    """Cutting stock: halves are worth half a GPU; four fifths a whole one, for hardly a fifth comes to fill it."""
    worth = gap_worth({500: 10, 800: 10, 200: 1})
    assert worth[[0, 199, 200, 499]] == pytest.approx([0, 0, 0, 0], abs=1e-6)
    assert worth[[500, 799]] == pytest.approx([0.5, 0.5], abs=1e-6)
    assert worth[[800, 1000]] == pytest.approx([1, 1], abs=1e-6)


def test_small_parts_have_a_price_where_they_are_many():
    """More fifths than leavings of four fifths: each costs a fifth of a GPU, so four fifths cost the rest."""
    worth = gap_worth({800: 1, 200: 10})
    assert worth[[200, 400, 800, 1000]] == pytest.approx([0.2, 0.4, 0.8, 1.0], abs=1e-6)


def test_sizes_without_a_common_grid_are_priced_to_the_thousandth():
    worth = gap_worth({333: 3, 501: 1})
    assert len(worth) == 1001
    assert worth[[332, 333, 500]] == pytest.approx([0, 1 / 3, 1 / 3], abs=1e-6)


def test_without_parts_only_whole_gpus_are_worth_something():
    assert list(np.flatnonzero(gap_worth({}))) == [1000]
