"""How fast GPU types are against each other, learned from jobs measured on several; nobody's word is taken for others."""

import pytest

from scheduler.estimator.estimator import estimator_for
from scheduler.estimator.measured import Measured, cell_key
from scheduler.estimator.scaling import learn_type_speeds
from scheduler.model.speeds import Cell, Knowledge
from tests.scheduler.builders import job, node

A, B = node(1, gpu_type="a"), node(2, gpu_type="b")


def known(**signatures):
    """{"t1_vgg": {"a": {1: 10.0}}} as by signature and type."""
    return {
        f"tenant:{name[1]}:{name[3:]}": {gpu_type: Measured(sizes) for gpu_type, sizes in types.items()}
        for name, types in signatures.items()
    }


def test_equal_sizes_are_compared_and_the_operators_figure_scales_what_was_found():
    speeds = learn_type_speeds(
        known(t1_x={"a": {1: 10.0, 4: 8.0}, "b": {4: 24.0, 8: 1.0}}), {"a": 2.0, "b": 2.0, "c": 5.0}
    )
    assert speeds.of(1) == {"a": 2.0, "b": pytest.approx(6.0), "c": 5.0}
    assert speeds.of(2) == {"a": 2.0, "b": 2.0, "c": 5.0}, "one tenant's word moves nobody else"


def test_sizes_that_differ_are_compared_as_well_each_by_its_own_scaling():
    """On a 4 GPUs at 8 and 1 at 10, so 2 at 8.94; on b only 2, at twice that."""
    speeds = learn_type_speeds(known(t1_x={"a": {1: 10.0, 4: 8.0}, "b": {2: 2 * 80**0.5}}), {})
    assert speeds.of(1)["b"] == pytest.approx(2.0)


def test_a_tenant_goes_by_others_on_types_that_it_never_compared():
    agreed = {"a": {1: 1.0}, "c": {1: 5.0}}
    speeds = learn_type_speeds(known(t1_x={"a": {1: 1.0}, "b": {1: 2.0}}, t2_y=agreed, t3_z=agreed), {})
    assert speeds.of(1) == {"b": pytest.approx(2.0), "c": pytest.approx(5.0)}


def test_two_tenants_who_agree_are_believed():
    speeds = learn_type_speeds(known(t1_x={"a": {1: 1.0}, "b": {1: 4.0}}, t2_y={"a": {1: 1.0}, "b": {1: 3.0}}), {})
    assert speeds.of(3)["b"] == pytest.approx(3.0)
    lie = learn_type_speeds(known(t1_x={"a": {1: 1.0}, "b": {1: 1e9}}, t2_y={"a": {1: 1.0}, "b": {1: 3.0}}), {})
    assert lie.of(3)["b"] == pytest.approx(3.0)


def test_jobs_without_a_label_say_nothing_of_types():
    own = {"job:7": {"a": Measured({1: 1.0}), "b": Measured({1: 4.0})}}
    assert learn_type_speeds(own, {"a": 1.5}).of(1) == {"a": 1.5}


def test_a_model_that_ran_on_one_type_is_assumed_on_another_as_its_tenants_others_were():
    cells = {
        cell_key(f"tenant:1:{label}", kind, 1, 1): Cell().add(speed)
        for label, kind, speed in (("x", "a", 10.0), ("x", "b", 30.0), ("y", "a", 7.0))
    }
    estimator = estimator_for(Knowledge(cells), {}, [A, B])
    asked = job(1, 1, 2, tenant=1, model_label="y")
    assert estimator.per_gpu(asked, B, 1, 1).per_gpu == pytest.approx(21.0)
    assert estimator.per_gpu(asked, A, 2, 1) == estimator.per_gpu(asked, A, 2, 1)
    assert estimator.per_gpu(asked, A, 2, 1).source == "sizes"
    assert estimator.per_gpu(asked, A, 2, 1).per_gpu == pytest.approx(7.0 * 2**-0.1)


@pytest.mark.parametrize(
    ("sizes", "gpus", "expected"),
    [
        ({}, 4, None),
        ({2: 10.0}, 4, 10.0 * 2**-0.1),
        ({1: 10.0, 2: 8.0}, 4, 6.4),
        ({1: 10.0, 4: 5.0}, 2, 10.0 * 2**-0.5),
        ({1: 10.0, 2: 20.0}, 4, 20.0),
        ({1: 10.0, 2: 1.0}, 4, 0.5),
    ],
)
def test_a_size_that_was_not_measured_is_judged_by_the_two_nearest(sizes, gpus, expected):
    found = Measured(sizes).on_one(gpus)
    assert found == (None if expected is None else pytest.approx(expected))
