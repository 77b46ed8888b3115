"""Schedulers know the true speeds, or those that a job has shown."""

import numpy as np
import pytest

from research.simulator.sia_rounds.fitted import StepModel, fitted
from research.simulator.sia_rounds.learned import Learned, single_gpu
from research.simulator.sia_rounds.speeds import Known
from tests.research.simulator.sia_rounds.cases import PLACES, job


def test_the_truth_is_that_of_the_epoch():
    known, own = Known(PLACES), job()
    key, table = known.table(own)
    assert all(known.is_sure(own, where) for where in table)
    assert {size for gpu_type, size, _ in table if gpu_type == "a100"} == {1, 2, 4, 8}
    assert table["t4", 8, 2] == own.training.best("t4", (4, 4), 0)[0]
    own.epoch = 1
    assert known.table(own)[0] != key
    assert known.table(own)[1]["t4", 8, 2] == own.training.best("t4", (4, 4), 1)[0]


def test_a_job_learns_by_running():
    learned, own = Learned(PLACES), job()
    assert learned.table(own)[1] == {}
    own.give("t4", (1,), 0.0, learned)
    own.live(0.0, 60.0, learned)
    _, table = learned.table(own)
    assert {size for _, size, _ in table} == {1, 2}
    ratio = single_gpu(own.training, "a100") / single_gpu(own.training, "t4")
    assert table["a100", 1, 1] == pytest.approx(ratio * table["t4", 1, 1])
    assert learned.is_sure(own, ("t4", 1, 1))
    assert not any(learned.is_sure(own, where) for where in (("t4", 2, 1), ("a100", 1, 1)))
    own.give("t4", (4,), 60.0, learned)
    own.live(60.0, 600.0, learned)
    assert {size for _, size, _ in learned.table(own)[1]} == {1, 2, 4, 8}


def test_what_it_learns_comes_near_the_truth():
    learned, own = Learned(PLACES), job(ends=(1e6, 2e6))
    for now_s, shape in enumerate([(1,), (2,), (4,), (4, 4)] * 2):
        own.give("t4", shape, now_s * 600.0, learned)
        own.live(now_s * 600.0, 600.0, learned)
    _, table = learned.table(own)
    for size, shape in ((1, (1,)), (4, (4,)), (8, (4, 4))):
        assert table["t4", size, len(shape)] == pytest.approx(own.training.best("t4", shape, 0)[0], rel=0.1)


def step_s(model, nodes, gpus, share):
    return 1.0 / float(model.rate(nodes, gpus, np.array([float(share)]), np.zeros(1), np.ones(1))[0])


def test_a_step_model_is_found_again_from_what_it_tells():
    true = StepModel(np.array([0.02, 0.001, 0.05, 0.004, 0.01, 0.002, 1.0]))
    where = [(1, 1, 32), (1, 1, 64), (1, 2, 64), (1, 4, 32), (1, 8, 32), (2, 16, 32), (3, 24, 48)]
    seen = {}
    for nodes, gpus, share in where:
        step = step_s(true, nodes, gpus, share)
        seen[nodes, gpus, share] = (step, step - (0.02 + 0.001 * share))
    found = fitted(seen)
    for nodes, gpus, share in [*where, (2, 8, 64)]:
        assert step_s(found, nodes, gpus, share) == pytest.approx(step_s(true, nodes, gpus, share), rel=0.03)


def test_what_nothing_tells_is_taken_for_cheap():
    found = fitted({(1, 1, 32): (0.1, 0.0)}).constants
    assert found[0] == pytest.approx(0.05)
    assert step_s(fitted({(1, 1, 32): (0.1, 0.0)}), 2, 16, 32) == pytest.approx(0.1, rel=0.01)
    two = fitted({(1, 1, 32): (0.1, 0.0), (1, 2, 32): (0.15, 0.05)}).constants
    assert two[2] == pytest.approx(1.1 * two[4])
