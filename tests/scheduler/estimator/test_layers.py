"""Throughput layers, asked top-down (algorithms.md section 2)."""

import pytest

from scheduler.errors import InvalidJob
from scheduler.estimator.estimator import Estimator, estimator_for
from scheduler.estimator.layers import ASSUMED_RHO, GUESSES, AssumedLayer, Estimate
from scheduler.estimator.measured import cell_key
from scheduler.estimator.scaling import TypeSpeeds
from scheduler.model.speeds import Cell, Knowledge
from tests.scheduler.builders import job, node


class Knows:
    def __init__(self, known):
        self.known = known

    def per_gpu(self, job, node, gpus, nodes):
        return Estimate(self.known[node.id], "entity", in_samples=True) if node.id in self.known else None

    def sensitivity(self, job):
        return None


@pytest.mark.parametrize("gpus", [1, 2, 8])
def test_assumed_is_speed_times_r_to_the_minus_a_tenth(gpus):
    estimate = AssumedLayer(TypeSpeeds({"a100": 1.5})).per_gpu(job(1, gpus), node(1), gpus, 1)
    assert estimate == Estimate(1.5 * gpus**-0.1, "assumed", in_samples=False)


def test_the_first_layer_that_knows_answers():
    estimator = Estimator((Knows({1: 42.0}), AssumedLayer(TypeSpeeds({}))))
    assert estimator.per_gpu(job(1, 1), node(1), 1, 1).source == "entity"
    assert estimator.per_gpu(job(1, 1), node(2), 1, 1).source == "assumed"
    assert estimator.sensitivity(job(1, 1)) == ASSUMED_RHO


def test_a_cell_without_a_measurement_is_a_guess():
    cells = {cell_key("job:1", "a100", gpus, 1): Cell(count, 5.0) for gpus, count in ((1, 3), (2, 0))}
    estimator = estimator_for(Knowledge(cells=cells), {}, [node(1)])
    sources = [estimator.per_gpu(job(1, 1), node(1), gpus, 1).source for gpus in (1, 2, 4)]
    assert sources == ["type", "foretold", "sizes"]
    assert [each in GUESSES for each in sources] == [False, True, True]


def test_no_layer_knows():
    with pytest.raises(InvalidJob, match="job 3: no throughput known on n2"):
        Estimator((Knows({}),)).per_gpu(job(3, 1), node(2), 1, 1)
