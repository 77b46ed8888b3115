"""Data times as two normals, fitted on line (Hops eq. 3; algorithms.md section 2)."""

import numpy as np
import pytest

from scheduler.estimator.mixture import KEPT, absorb
from scheduler.model.speeds import Loading, Part


def unstable(rng, count, p_hit=0.8, hit=(0.02, 0.004), miss=(0.3, 0.05)):
    """Data times, and wait times that go with misses."""
    hits = rng.random(count) < p_hit
    data = np.abs(np.where(hits, rng.normal(*hit, count), rng.normal(*miss, count)))
    return data, np.abs(np.where(hits, rng.normal(0.1, 0.01, count), rng.normal(0.01, 0.001, count)))


def test_two_normals_are_found_and_wait_times_follow_them():
    rng = np.random.default_rng(1)
    loading = Loading()
    for _ in range(40):
        loading = absorb(loading, *unstable(rng, 50))
    hit, miss = loading.parts
    assert loading.count == 2000
    assert loading.probabilities == pytest.approx((0.8, 0.2), abs=0.03)
    assert (hit.data_s, hit.data_sigma_s) == (pytest.approx(0.02, rel=0.05), pytest.approx(0.004, rel=0.2))
    assert (miss.data_s, miss.data_sigma_s) == (pytest.approx(0.3, rel=0.05), pytest.approx(0.05, rel=0.2))
    assert (hit.wait_s, miss.wait_s) == (pytest.approx(0.1, rel=0.05), pytest.approx(0.01, rel=0.1))


def test_bic_keeps_one_component_for_stable_loading():
    rng = np.random.default_rng(2)
    kept = 0
    for _ in range(5):
        loading = Loading()
        for _ in range(10):
            loading = absorb(loading, np.abs(rng.normal(0.1, 0.01, 30)))
        kept += loading.is_stable
    assert kept == 5
    (part,) = absorb(Loading(), [0.1] * 50).parts
    assert (part.data_s, part.weight) == (pytest.approx(0.1), 50)


def test_overlapping_normals_are_told_apart_with_enough_of_them():
    rng = np.random.default_rng(3)
    loading = absorb(Loading(), unstable(rng, 500, 0.6, (0.1, 0.02), (0.2, 0.03))[0])
    assert [part.data_s for part in loading.parts] == [pytest.approx(0.1, rel=0.1), pytest.approx(0.2, rel=0.1)]


def test_section_2_runs_alone_say_nothing_of_waiting():
    """T_w is tied to hit and miss, and learnt from runs that have somebody to wait for only."""
    rng = np.random.default_rng(6)
    loading = absorb(Loading(), unstable(rng, 500)[0])  # one GPU
    assert [part.wait_s for part in loading.parts] == [0.0, 0.0]
    assert loading.recent[0][1] is None
    for _ in range(4):
        loading = absorb(loading, *unstable(rng, 100))
    assert [part.wait_s for part in loading.parts] == pytest.approx([0.1, 0.01], rel=0.1)
    again = Loading(loading.count, tuple(Part(*part.statistics) for part in loading.parts))
    assert again.parts == loading.parts


def test_batches_and_the_whole_come_to_the_same():
    data, wait = unstable(np.random.default_rng(4), 400)
    whole = absorb(Loading(), data, wait)
    split = Loading()
    for start in range(0, 400, 20):
        split = absorb(split, data[start : start + 20], wait[start : start + 20])
    assert split.probabilities == pytest.approx(whole.probabilities, abs=0.02)
    assert [part.data_s for part in split.parts] == pytest.approx([part.data_s for part in whole.parts], rel=0.03)


def test_when_loading_becomes_stable_the_fit_becomes_one_again():
    rng = np.random.default_rng(5)
    loading = absorb(Loading(), *unstable(rng, 100))
    assert not loading.is_stable
    loading = absorb(loading, np.abs(rng.normal(0.02, 0.004, 4 * KEPT)))
    assert loading.is_stable
    assert len(loading.recent) == KEPT


@pytest.mark.parametrize("data", [[float("nan")], [-1.0], [float("inf")]])
def test_bad_times_are_refused(data):
    with pytest.raises(ValueError, match="finite and 0 or more"):
        absorb(Loading(), data)
    with pytest.raises(ValueError, match="1 data times beside 2 wait times"):
        absorb(Loading(), [1.0], [1.0, 2.0])
    assert absorb(Loading(), []) == Loading()
