"""The iteration model (Hops 3.5, eq. 1-5; algorithms.md section 2) and its accuracy (Hops 4.1, Fig. 6 and 7)."""

from dataclasses import replace

import numpy as np
import pytest

from scheduler.estimator.iteration import (
    Iteration,
    bandwidth,
    communication_s,
    expected_maximum,
    iteration_s,
    recognise,
    throughput,
)
from scheduler.estimator.mixture import absorb
from scheduler.model.speeds import Link, Loading, Profile
from scheduler.pattern import Pattern

LINK = Link(within_node=1e9, between_nodes=2e8)
STEADY = absorb(Loading(), [0.04] * 20)


def profile(**more):
    return Profile(
        **{"forward_s": 0.1, "backward_s": 0.2, "update_s": 0.03, "batch_size": 32, "loading": STEADY} | more
    )


@pytest.mark.parametrize(
    ("parameters", "gpus", "nodes", "seconds"),
    [(4e8, 1, 1, 0.0), (4e8, 4, 1, 0.3), (4e8, 2, 1, 0.2), (4e8, 2, 2, 2.0), (4e8, 16, 2, 2.0)],
)
def test_equation_2(parameters, gpus, nodes, seconds):
    assert communication_s(parameters, LINK, gpus, nodes) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("pattern", "parameters", "gpus", "expected"),
    [
        (Pattern.OVERLAPPED, 0, 1, 0.2 + 0.03 + 0.1),
        (Pattern.SEQUENTIAL, 0, 1, 0.04 + 0.2 + 0.03 + 0.1),
        (Pattern.OVERLAPPED, 2e8, 2, 0.2 + 0.2 * 0.1 + 0.03 + 0.1),  # T_c = 0.1: a fifth of it shows
        (Pattern.SEQUENTIAL, 1e9, 2, 0.04 + 0.5 + 0.03 + 0.1),  # T_c = 0.5 outlasts the backward pass
        (Pattern.INFERENCE, 1e9, 2, 0.04 + 0.1),
    ],
)
def test_equation_1(pattern, parameters, gpus, expected):
    asked = profile(pattern=pattern, parameters=parameters)
    assert iteration_s(asked, LINK, gpus, 1) == pytest.approx(expected)
    assert throughput(asked, LINK, gpus, 1) == pytest.approx(32 / expected)


def test_slow_loading_sets_the_pace_of_pattern_1():
    asked = profile(loading=absorb(Loading(), [0.5] * 20))
    assert iteration_s(asked, None, 1, 1) == pytest.approx(0.5 + 0.1, rel=1e-3)


def test_what_is_not_known_is_not_guessed():
    assert throughput(profile(loading=Loading()), LINK, 1, 1) is None
    assert throughput(profile(), None, 2, 1) is None
    assert throughput(profile(), None, 1, 1) is not None


def test_section_2_communication_that_cannot_be_known_is_not_taken_for_none():
    """Without parameters, or without the bandwidth in question, there is no theory over several GPUs."""
    many = profile(parameters=1e8)
    assert throughput(profile(parameters=0.0), LINK, 2, 1) is None
    assert throughput(many, Link(1e9, None), 4, 2) is None
    assert throughput(many, Link(1e9, None), 4, 1) is not None
    assert throughput(many, Link(None, 1e8), 2, 1) is None
    assert throughput(profile(pattern=Pattern.INFERENCE, parameters=0.0), None, 8, 2) is not None


def test_the_expected_maximum_is_the_integral():
    draws = np.random.default_rng(1).normal(0.2, 0.1, 200_000)
    for floor in (0.0, 0.15, 0.2, 0.4):
        assert expected_maximum(0.2, 0.1, floor) == pytest.approx(np.maximum(draws, floor).mean(), abs=1e-3)
    assert expected_maximum(0.2, 0.0, 0.3) == 0.3


def iterations(pattern, rng, count=40, data_s=0.08, noise=0.02):
    found = []
    for _ in range(count):
        data, forward, backward, update = (abs(rng.normal(mean, noise * mean)) for mean in (data_s, 0.1, 0.2, 0.03))
        total = forward + max(data, backward + update) if pattern == 1 else data + forward + backward + update
        found.append(Iteration(data, forward, backward, update, total * rng.normal(1, 0.01)))
    return found


@pytest.mark.parametrize("pattern", [Pattern.OVERLAPPED, Pattern.SEQUENTIAL])
@pytest.mark.parametrize("seed", range(5))
def test_the_pattern_is_recognised(pattern, seed):
    assert recognise(iterations(pattern, np.random.default_rng(seed))) is pattern


def test_the_pattern_is_left_open_where_nothing_tells_it():
    assert recognise([]) is None
    assert recognise(iterations(Pattern.OVERLAPPED, np.random.default_rng(1), data_s=1e-6)) is None
    assert recognise([Iteration(0.1, 0.2, 0.0, 0.0, 0.3)]) is Pattern.INFERENCE


def test_bandwidths_are_measured_from_all_reduces():
    within = [(p, p / 1e9 * (n - 1) / n, n) for p in (1e6, 1e8) for n in (2, 4, 8)]
    assert bandwidth(within) == pytest.approx(1e9)
    assert bandwidth([(1e8, 0.5, 16), (2e8, 1.0, 16)], nodes=2) == pytest.approx(2e8)
    with pytest.raises(ValueError, match="more than one GPU"):
        bandwidth([(1e8, 0.5, 1)])


def simulated(asked, rng, gpus, nodes, count, draw):
    """True iterations of `gpus` processes in step: (mean seconds, data times and wait times of the first process)."""
    communication = communication_s(asked.parameters, LINK, gpus, nodes) or 0.0
    data = draw(rng, (count, gpus))
    gradient = max(asked.backward_s + 0.2 * communication, communication) + asked.update_s
    own = np.maximum(data, gradient) if asked.pattern is Pattern.OVERLAPPED else data + gradient
    own = (own + asked.forward_s) * rng.normal(1.0, 0.01, (count, gpus))
    slowest = own.max(axis=1)
    return slowest.mean(), data[:, 0], slowest - own[:, 0]


def stable(rng, shape):
    return np.abs(rng.normal(0.05, 0.005, shape))


def hit_or_miss(rng, shape):
    return np.abs(np.where(rng.random(shape) < 0.85, rng.normal(0.03, 0.003, shape), rng.normal(0.9, 0.15, shape)))


@pytest.mark.parametrize("pattern", [Pattern.OVERLAPPED, Pattern.SEQUENTIAL])
@pytest.mark.parametrize(("gpus", "nodes"), [(1, 1), (2, 1), (4, 1), (8, 1), (2, 2), (16, 2)])
def test_stable_loading_is_predicted_to_95_percent_from_50_iterations_on_one_gpu(pattern, gpus, nodes):
    asked = profile(pattern=pattern, parameters=1.4e8)
    rng = np.random.default_rng(7)
    _, data, _ = simulated(asked, rng, 1, 1, 50, stable)
    predicted = throughput(replace(asked, loading=absorb(Loading(), data)), LINK, gpus, nodes)
    true_s, _, _ = simulated(asked, rng, gpus, nodes, 4000, stable)
    assert abs(predicted * true_s / 32 - 1) <= 0.05


def test_the_error_of_unstable_loading_falls_as_executions_accumulate():
    asked = profile(parameters=1.4e8)
    errors = {20: [], 200: [], 4000: []}
    for seed in range(4):
        rng = np.random.default_rng(seed)
        true_s, _, _ = simulated(asked, rng, 4, 1, 20_000, hit_or_miss)
        loading = Loading()
        for _ in range(200):
            _, data, wait = simulated(asked, rng, 4, 1, 20, hit_or_miss)
            loading = absorb(loading, data, wait)
            if loading.count in errors:
                predicted = throughput(replace(asked, loading=loading), LINK, 4, 1)
                errors[loading.count].append(abs(predicted * true_s / 32 - 1))
    means = [float(np.mean(each)) for each in errors.values()]
    assert means[0] > means[1] > means[2]
    assert means[2] < 0.05, means


@pytest.mark.parametrize("draw", [stable, hit_or_miss])
def test_section_2_inference_is_predicted_from_data_and_forward_alone(draw):
    """T_iter = T_d + T_f on any number of GPUs: no communication, nobody to wait for."""
    rng = np.random.default_rng(3)
    loading = Loading()
    for _ in range(20):
        loading = absorb(loading, draw(rng, 400))
    asked = profile(pattern=Pattern.INFERENCE, backward_s=0.0, update_s=0.0, loading=loading)
    true_s = draw(rng, 20_000).mean() + 0.1
    for gpus, nodes in ((1, 1), (8, 1), (16, 2)):
        assert abs(throughput(asked, None, gpus, nodes) * true_s / 32 - 1) <= 0.05
