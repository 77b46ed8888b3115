"""What processes wait for the slowest of them, foretold from one of them (algorithms.md section 2), beside draws."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.estimator.iteration import Iteration, excess_s, exposed, iteration_s, spread_s, unseen_s
from scheduler.model.speeds import Link, Loading, Part, Profile
from scheduler.pattern import Pattern

GRADIENT_S = 0.13


def part(mean, sigma, weight=1.0):
    return Part(weight, weight * mean, weight * (mean**2 + sigma**2), 0.0, 0.0, 0.0)


def profile(*parts, sigma=0.0, pattern=Pattern.SEQUENTIAL):
    return Profile(0.04, 0.12, 0.01, 32, pattern=pattern, loading=Loading(100, parts), rest_sigma_s=sigma)


PARTS = st.builds(part, st.floats(0.001, 1.0), st.floats(0.0, 0.2), st.floats(0.05, 1.0))
PROFILES = st.builds(
    lambda parts, sigma, pattern: profile(*parts, sigma=sigma, pattern=pattern),
    st.lists(PARTS, min_size=1, max_size=2),
    st.floats(0.0, 0.1),
    st.sampled_from((Pattern.SEQUENTIAL, Pattern.OVERLAPPED)),
)


@given(PROFILES, st.lists(st.integers(1, 2000), min_size=2, max_size=4))
def test_it_never_falls_with_more_processes_and_one_waits_for_nobody(asked, sizes):
    waits = [excess_s(asked, GRADIENT_S, size) for size in sorted(sizes)]
    assert waits == sorted(waits)
    assert waits[0] >= excess_s(asked, GRADIENT_S, 1) == 0.0
    assert waits == [excess_s(asked, GRADIENT_S, size) for size in sorted(sizes)], "the same again"


@given(st.floats(0.001, 1.0), st.integers(2, 2000), st.sampled_from((Pattern.SEQUENTIAL, Pattern.OVERLAPPED)))
def test_without_spread_nothing_changes(mean, gpus, pattern):
    asked = profile(part(mean, 0.0), pattern=pattern)
    assert excess_s(asked, GRADIENT_S, gpus) == pytest.approx(0.0, abs=1e-7)
    told = iteration_s(replace(asked, rest_sigma_s=None), None, 1, 1)
    assert iteration_s(asked, None, 1, 1) == told


@pytest.mark.parametrize(("gpus", "factor"), [(2, 0.56419), (3, 0.84628), (4, 1.02938), (10, 1.53875), (100, 2.50759)])
def test_a_normal_s_largest_is_as_the_tables_have_it(gpus, factor):
    """Expected largest of N standard normals: Harter, Biometrika 48 (1961)."""
    assert excess_s(profile(part(0.1, 0.003), sigma=0.004), GRADIENT_S, gpus) == pytest.approx(0.005 * factor, rel=1e-4)


@pytest.mark.parametrize("gpus", [2, 4, 16])
@pytest.mark.parametrize("pattern", [Pattern.SEQUENTIAL, Pattern.OVERLAPPED])
@pytest.mark.parametrize("sigma", [0.0, 0.01])
def test_hits_and_misses_wait_as_draws_do(gpus, pattern, sigma):
    asked = profile(part(0.03, 0.002, 0.7), part(0.25, 0.0125, 0.3), sigma=sigma, pattern=pattern)
    rng, shape = np.random.default_rng(1), (30_000, gpus)
    data = np.where(rng.random(shape) < 0.7, rng.normal(0.03, 0.002, shape), rng.normal(0.25, 0.0125, shape))
    rest = rng.normal(GRADIENT_S, sigma, shape)
    own = np.maximum(data, rest) if pattern is Pattern.OVERLAPPED else data + rest
    assert excess_s(asked, GRADIENT_S, gpus) == pytest.approx(own.max(axis=1).mean() - own.mean(), rel=0.02)


def waited(asked, *, seconds, gpus):
    """What is known after runs of so many processes in which one waited so long for the others."""
    (only,) = asked.loading.parts
    parts = (replace(only, wait=seconds * only.weight, wait2=seconds**2 * only.weight, waited=only.weight),)
    return replace(asked, loading=replace(asked.loading, parts=parts), wait_gpus=gpus)


def test_what_was_waited_takes_the_place_of_what_was_foretold():
    asked = profile(part(0.1, 0.005))
    two, four = (excess_s(asked, GRADIENT_S, gpus) for gpus in (2, 4))
    assert unseen_s(asked, GRADIENT_S, 4) == four
    for seconds, more in (
        (two, four - two),
        (two / 2, (four - two) / 2),  # half of it is common to both: of four too
        (two + 0.004, four - two),  # what waking late costs stays what it is
        (0.0, 0.0),
    ):
        known = waited(asked, seconds=seconds, gpus=2.0)
        assert unseen_s(known, GRADIENT_S, 2) == 0.0
        assert unseen_s(known, GRADIENT_S, 4) == pytest.approx(more)


@given(PARTS, st.floats(0.0, 0.5), st.floats(1.5, 64), st.lists(st.integers(2, 500), min_size=2, max_size=2))
def test_with_what_was_waited_it_never_falls_nor_goes_below_nothing(only, seconds, gpus, sizes):
    known = waited(profile(only), seconds=seconds, gpus=gpus)
    few, many = (seconds + unseen_s(known, GRADIENT_S, size) for size in sorted(sizes))
    assert -1e-12 <= few <= many + 1e-12


def test_a_profile_without_a_spread_is_as_it_was():
    asked = replace(profile(part(0.1, 0.005)), rest_sigma_s=None)
    assert unseen_s(asked, GRADIENT_S, 4) == 0.0
    older = waited(profile(part(0.1, 0.005)), seconds=0.01, gpus=0.0)
    assert unseen_s(older, GRADIENT_S, 4) == 0.0, "nobody kept how many processes there were"


def test_a_spread_leaves_out_the_step_in_which_a_checkpoint_was_saved():
    steps = list(np.random.default_rng(1).normal(0.2, 0.01, 60))
    assert spread_s(steps) == pytest.approx(0.01, rel=0.25)
    assert spread_s([*steps, 30.0, 31.0]) == pytest.approx(0.01, rel=0.25)
    assert spread_s([0.2] * 20) == 0.0
    assert spread_s(steps[:7]) is None


def steps(pattern, share, *, data_s=0.1, exchange_s=0.02, wait_s=0.005):
    """Iterations of several processes of which so large a part of the exchange is not hidden."""
    gradient = 0.12 + 0.01 + share * exchange_s
    whole = max(data_s, gradient) if pattern is Pattern.OVERLAPPED else data_s + gradient
    return [Iteration(data_s, 0.0, 0.0, 0.0, whole + 0.04 + wait_s, wait_s, exchange_s)] * 10


@pytest.mark.parametrize("pattern", [Pattern.SEQUENTIAL, Pattern.OVERLAPPED])
@pytest.mark.parametrize("share", [0.0, 0.2, 1.0])
def test_what_a_step_takes_beyond_its_modules_is_exchange_that_nothing_hid(pattern, share):
    shown, told = exposed(profile(part(0.1, 0.0), pattern=pattern), steps(pattern, share))
    assert (shown, told) == pytest.approx((share * 0.2, 0.2))


def test_a_step_that_its_loading_held_up_says_nothing_of_the_exchange():
    asked = profile(part(0.3, 0.0), pattern=Pattern.OVERLAPPED)
    assert exposed(asked, steps(Pattern.OVERLAPPED, 1.0, data_s=0.3)) == (0.0, 0.0)


def test_no_more_of_the_exchange_shows_than_there_was():
    shown, told = exposed(profile(part(0.1, 0.0)), steps(Pattern.SEQUENTIAL, 3.0))
    assert shown == told == pytest.approx(0.2)
    assert exposed(profile(part(0.1, 0.0)), steps(Pattern.SEQUENTIAL, -1.0))[0] == 0.0


def test_a_training_that_exchanges_after_its_backward_pass_is_predicted_so():
    link, asked = (
        Link(within_node=1e8, between_nodes=None),
        replace(profile(part(0.1, 0.0)), parameters=4e6),
    )  # T_c 0.02
    assert iteration_s(asked, link, 2, 1) == pytest.approx(0.27 + 0.2 * 0.02)
    assert iteration_s(replace(asked, exposed=1.0), link, 2, 1) == pytest.approx(0.27 + 0.02)
