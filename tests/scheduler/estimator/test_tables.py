"""Measured throughput, and the four layers asked top-down (Hops 3.3, 3.5; algorithms.md section 2)."""

import math

import numpy as np
import pytest

from scheduler.estimator.estimator import estimator_for
from scheduler.estimator.measured import record, signature, signature_of
from scheduler.estimator.mixture import absorb
from scheduler.model import ClusterState
from scheduler.model.speeds import Cell, CellKey, Knowledge, Link, Loading, Profile
from scheduler.parameters import Parameters
from scheduler.planning.plan import plan
from tests.scheduler.builders import job, node, ticking

A1, A2, B1 = node(1, gpu_type="a"), node(2, gpu_type="a"), node(3, gpu_type="b")
NODES = [A1, A2, B1]


def test_welford_is_the_mean_and_the_variance():
    values = np.random.default_rng(1).normal(1e6, 1.0, 500)
    cell = Cell()
    for value in values:
        cell = cell.add(float(value))
    assert (cell.count, cell.mean, cell.variance) == (
        500,
        pytest.approx(values.mean()),
        pytest.approx(values.var(ddof=1)),
    )
    assert Cell().add(3.0).variance is None
    for bad in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="above 0"):
            cell.add(bad)


def test_a_signature_is_the_tenants_model_or_the_job_alone():
    assert signature_of(3, "vgg", 7) == signature_of(3, "vgg", 8)
    assert (
        len({signature_of(3, "vgg", 7), signature_of(4, "vgg", 7), signature_of(3, None, 7), signature_of(3, "", 8)})
        == 4
    )
    assert signature(job(5, 1, tenant=2, model_label="bert")) == "tenant:2:bert"


def test_a_measurement_goes_to_the_entity_and_the_type_by_gpus_and_nodes():
    found = record({}, "s", [(1, "a")], 4, 10.0)
    assert set(found) == {CellKey("s", 1, gpus=4), CellKey("s", "a", gpus=4)}
    found |= record(found, "s", [(2, "a")], 4, 20.0)
    assert (found[CellKey("s", "a", gpus=4)].mean, found[CellKey("s", 1, gpus=4)].mean) == (15, 10)
    spread = record(found, "s", [(1, "a"), (2, "a")], 6, 5.0)
    assert {key: cell.count for key, cell in spread.items()} == {
        CellKey("s", 1, gpus=6, nodes=2): 1,
        CellKey("s", 2, gpus=6, nodes=2): 1,
        CellKey("s", "a", gpus=6, nodes=2): 1,
    }
    assert record({}, "s", [(1, "a"), (2, "a")], 2, 5.0).keys().isdisjoint(spread)


def knowledge(cells=(), **profiles):
    return Knowledge(
        {key: Cell().add(value) for key, value in cells},
        {("job:1", name): each for name, each in profiles.items()},
        {"a": Link(1e9, 1e8), "b": Link(1e9, 1e8)},
    )


STEADY = Profile(0.1, 0.2, 0.1, batch_size=40, parameters=1e7, loading=absorb(Loading(), [0.01] * 20))


def test_layers_are_asked_top_down():
    known = knowledge([(CellKey("job:1", 1, gpus=1), 50.0), (CellKey("job:1", "a", gpus=1), 60.0)], a=STEADY)
    estimator = estimator_for(known, {}, NODES)
    asked = job(1, 1, 2)
    answers = [estimator.per_gpu(asked, *where) for where in ((A1, 1, 1), (A2, 1, 1), (A2, 2, 1), (B1, 1, 1))]
    assert [each.source for each in answers] == ["entity", "type", "theory", "assumed"]
    assert [each.per_gpu for each in answers[:3]] == [50, 60, pytest.approx(40 / (0.2 + 0.001 + 0.1 + 0.1))]
    assert estimator.per_gpu(job(2, 1), A1, 1, 1).source == "assumed"


def test_assumed_types_are_put_in_the_units_of_those_that_are_known():
    estimator = estimator_for(knowledge([(CellKey("job:1", "a", gpus=1), 60.0)]), {"a": 2.0, "b": 4.0}, NODES)
    assert estimator.per_gpu(job(1, 1), B1, 1, 1).per_gpu == 120
    assert estimator.per_gpu(job(2, 1), B1, 1, 1).per_gpu == 4


def test_age_comes_from_samples_once_the_speed_is_known():
    """Eq. 9: 16 GPUs of a at 60 samples/s, 8 of b unknown, R_avg 1: 6000 / 60."""
    known = knowledge([(CellKey("job:1", "a", gpus=1), 60.0)])
    asked = job(1, 1, age_s=None, total_samples=6000.0, expected_duration_s=9.0)
    for state_knowledge, age in ((known, (100.0, "samples")), (Knowledge(), (30.0, "declared"))):
        state = ClusterState(NODES, [asked], knowledge=state_knowledge)
        (decision,) = plan(state, 0.0, Parameters(), np.random.default_rng(1), ticking()).decisions
        assert (decision.age_s, decision.age_source) == age


def test_a_job_of_low_sensitivity_is_spread_over_fragments():
    known = knowledge(a=STEADY)
    nodes = [node(1, 8, gpu_type="a", idle=2), node(2, 8, gpu_type="a", idle=2)]
    state = ClusterState(nodes, [job(1, 4)], knowledge=known)
    (placement,) = plan(state, 0.0, Parameters(), np.random.default_rng(1), ticking()).placements
    assert [len(piece.gpus) for piece in placement.pieces] == [2, 2]
