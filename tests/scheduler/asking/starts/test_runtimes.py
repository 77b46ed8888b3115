"""How long jobs run over what was expected: learnt, with what still runs."""

import math

import pytest

from scheduler.asking.starts.runtimes import EXPONENT, PastRun, RunTimes

ONE = (1,)


def runs(ratio, *, owner=1, count=40, size=1.0, ended=True, sizes=ONE):
    return [PastRun(owner, 100.0 * ratio, 100.0, ended, size, sizes) for _ in range(count)]


def test_nothing_known_is_the_log_normal():
    assert RunTimes().ratio(1, ONE, 0.0) == pytest.approx(1.0, rel=0.02)
    assert RunTimes().ratio(1, ONE, 1.0) == pytest.approx(math.exp(0.5), rel=0.05)


def test_an_owner_has_a_distribution_of_its_own():
    times = RunTimes([*runs(0.1, owner=1), *runs(3.0, owner=2)])
    assert times.ratio(1, ONE, 0.0) == pytest.approx(0.1, rel=0.05)
    assert times.ratio(2, ONE, 0.0) == pytest.approx(3.0, rel=0.05)
    assert 0.1 <= times.ratio(3, ONE, 0.0) <= 3.0  # somebody new: everybody's


def test_a_kind_that_others_declare_too_long_is_soon_known_and_no_other_kind_with_it():
    """What it asks for tells more than whose it is: five jobs of ten GPUs against forty of one."""
    times = RunTimes([*runs(1.0, owner=1), *runs(0.05, owner=2, count=5, sizes=(10,))])
    assert times.ratio(1, (10,), 0.0) == pytest.approx(0.05, rel=0.1)
    assert times.ratio(1, ONE, 0.0) == pytest.approx(1.0, rel=0.05)
    both = (*runs(0.05, owner=2, count=5, sizes=(10,)), *runs(2.0, owner=1, count=5, sizes=(10,)))
    own = RunTimes([*runs(1.0, owner=1), *both])
    assert own.ratio(1, (10,), 0.0) == pytest.approx(2.0, rel=0.1)  # the owner's of the kind tell most


def test_what_still_runs_counts_as_longer():
    """Half ended at once, half run on for ten times what was expected: the median of the ended alone is no median."""
    times = RunTimes([*runs(0.1), *runs(10.0, ended=False)])
    assert times.ratio(1, ONE, 1.0) >= 10.0
    assert RunTimes(runs(0.1)).ratio(1, ONE, 1.0) < 0.2


def test_a_run_that_lasts_has_the_rest_of_its_distribution():
    times = RunTimes([*runs(0.1), *runs(2.0)])
    assert times.ratio(1, ONE, 0.0, lasted=0.5) == pytest.approx(2.0, rel=0.05)
    assert times.ratio(1, ONE, 0.0, lasted=50.0) == pytest.approx(100.0)  # longer than any: about as long again
    assert times.ratio(1, ONE, -3.0, lasted=1.0) >= 1.0


def test_whether_larger_is_shorter_is_learnt():
    """`size`: the mean of the accepted sizes over what the job had."""
    same = [PastRun(1, 100.0, 100.0, ended=True, size=2.0**k) for k in (-1, 0, 1) for _ in range(40)]
    shorter = [PastRun(1, 100.0 * 2.0**k, 100.0, ended=True, size=2.0**k) for k in (-1, 0, 1) for _ in range(40)]
    assert RunTimes().exponent == EXPONENT
    assert RunTimes(same).exponent < 0.1
    assert RunTimes(shorter).exponent > 0.95
