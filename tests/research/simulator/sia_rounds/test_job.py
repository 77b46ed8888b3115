"""Trainings by epochs, and how a job lives in rounds."""

import pytest

from research.simulator.sia_rounds.speeds import Known, evenly
from research.simulator.sia_rounds.training import Noise, Steps, gain
from tests.research.simulator.sia_rounds.cases import PLACES, job, training


@pytest.fixture
def known():
    return Known(PLACES)


def test_an_iteration_is_worth_more_with_a_larger_batch_as_far_as_gradients_are_noisy():
    assert gain(Noise(1.0, 0.0), 8.0) == 1.0
    assert gain(Noise(0.0, 1.0), 8.0) == 8.0
    assert gain(Noise(1.0, 1.0), 8.0) == pytest.approx(2 / 1.125)
    assert gain(Noise(0.0, 0.0), 8.0) == 1.0


def test_the_best_batch_size_grows_with_the_noise():
    own = training()
    _, quiet = own.best("t4", (4,), 0)
    _, noisy = own.best("t4", (4,), 1)
    assert noisy.batch(4) > quiet.batch(4)
    assert (
        own.best("t4", (4,), 1)[0] / own.best("t4", (1,), 1)[0]
        > own.best("t4", (4,), 0)[0] / own.best("t4", (1,), 0)[0]
    )


def test_a_rate_is_gain_over_time_and_slowdown():
    own = training(slowdown=2.0)
    expected = gain(own.noise(64.0, 1), 8.0) / (0.1 + 0.16 + 0.01) / 2.0
    assert own.rate("t4", (4,), Steps(16, 0), 1) == pytest.approx(expected)
    accumulated = gain(own.noise(128.0, 1), 16.0) / (0.1 + 0.16 + 0.01 + 0.26) / 2.0
    assert own.rate("t4", (4,), Steps(16, 1), 1) == pytest.approx(accumulated)


def test_one_gpu_accumulates_so_that_noise_can_be_told():
    assert training().steps(64.0, 1, 64.0) == Steps(32, 1)
    assert training().steps(8.0, 1, 64.0) == Steps(8, 0)
    assert training().steps(512.0, 4, 64.0) == Steps(64, 1)


def test_sizes_and_shapes_are_sias():
    assert PLACES.sizes("t4", 64) == [1, 2, 4, 8]
    assert PLACES.sizes("a100", 4) == [1, 2, 4]
    assert PLACES.shapes("t4", 4, 16) == [(4,), (2, 2)]
    assert evenly(5, 2) == (3, 2)


def test_a_job_waits_restarts_and_ends_at_its_moment(known):
    own = job(submitted_s=20.0)
    own.live(0.0, 60.0, known)
    assert own.waited_s == 40.0
    own.give("a100", (8,), 60.0, known)
    own.live(60.0, 60.0, known)
    assert own.restart_left_s == 0.0
    rate, _ = own.training.best("a100", (8,), 0)
    assert own.progress == pytest.approx(10.0 * rate)
    while own.ended_s is None:
        own.live(120.0, 6000.0, known)
    first_s, second_s = (1000.0 / own.training.best("a100", (8,), epoch)[0] for epoch in (0, 1))
    assert own.ended_s == pytest.approx(110.0 + first_s + second_s)
    assert own.done_fraction == 1.0
    assert own.waited_s == 40.0


def test_the_same_shape_on_the_same_type_is_no_restart(known):
    own = job()
    for gpu_type, shape, restarts in (
        ("t4", (4,), 0),
        ("t4", (4,), 0),
        ("a100", (4,), 1),
        ("", (), 1),
        ("a100", (4,), 2),
    ):
        own.give(gpu_type, shape, 60.0, known)
        assert own.restarts == restarts
    assert own.restart_left_s == 50.0
    assert own.most_gpus == 4
