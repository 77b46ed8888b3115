"""Profiles made at once are those made one by one."""

import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from scheduler.sharing.model import MEASURES, Profile, profiles_of

SERIES = st.lists(st.floats(0, 1e6), min_size=5, max_size=9)


@drawn(st.lists(SERIES, max_size=6))
def test_many_at_once_are_as_one_by_one(all_series):
    uses = {str(n): dict.fromkeys(MEASURES, series) | {"seconds": [7.0]} for n, series in enumerate(all_series)}
    found = profiles_of(uses)
    assert found.keys() == uses.keys()
    for name, profile in found.items():
        alone = Profile({measure: np.array(uses[name][measure]) for measure in MEASURES}, 7.0)
        assert (profile.harvested_mib, profile.seconds) == (alone.harvested_mib, alone.seconds)
        assert profile.busy == pytest.approx(alone.busy)
        assert np.array_equal(profile.at_points(), alone.at_points())


@pytest.mark.parametrize("wrong", [[1.0] * 4, [1.0, -1.0, 1, 1, 1], [float("nan")] * 5, [float("inf")] * 5, ["x"] * 5])
def test_what_cannot_be_compared_is_left_out_and_nothing_else(wrong):
    good = {key: [1.0, 2.0, 3.0, 4.0, 5.0] for key in MEASURES}
    assert list(profiles_of({"a": good, "b": good | {"gpu": wrong}, "c": {}, "d": good})) == ["a", "d"]
