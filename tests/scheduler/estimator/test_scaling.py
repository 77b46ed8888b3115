"""How speeds fall with the number of GPUs is learned: by the job's other types, by its tenant's other models, by others'."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.estimator.estimator import estimator_for
from scheduler.estimator.measured import SCALING_EXPONENT, Measured, cell_key
from scheduler.estimator.scaling import Usual, learn_usual
from scheduler.model.speeds import Cell, Knowledge
from tests.scheduler.builders import job, node

A, B, C = node(1, gpu_type="a"), node(2, gpu_type="b"), node(3, gpu_type="c")


def known(**signatures):
    """{"t1_vgg": {"a": {1: 10.0}}} as by signature and type."""
    return {
        f"tenant:{name[1]}:{name[3:]}": {gpu_type: Measured(sizes) for gpu_type, sizes in types.items()}
        for name, types in signatures.items()
    }


def estimator(**signatures):
    """The same as an estimator's knowledge."""
    cells = {
        cell_key(f"tenant:{name[1]}:{name[3:]}", gpu_type, gpus, 1): Cell().add(speed)
        for name, types in signatures.items()
        for gpu_type, sizes in types.items()
        for gpus, speed in sizes.items()
    }
    return estimator_for(Knowledge(cells), {}, [A, B, C])


def speed(found, label, on, gpus, *, tenant=1):
    return found.per_gpu(job(1, 1, 2, 4, 8, tenant=tenant, model_label=label), on, gpus, 1).per_gpu


HALVES = {1: 8.0, 4: 4.0}
"""An exponent of -0.5."""


def test_without_a_measurement_it_is_a_tenth():
    assert learn_usual({}) == Usual(SCALING_EXPONENT, {})
    assert learn_usual(known(t1_x={"a": {4: 1.0}})) == Usual(SCALING_EXPONENT, {})


def test_a_tenants_is_the_mean_of_its_models_and_the_assumption():
    found = learn_usual(
        known(t1_x={"a": HALVES, "b": {1: 8.0, 4: 8.0}}, t1_y={"a": {2: 4.0, 4: 2.0}}, t1_z={"a": {1: 1.0}})
    )
    assert found.of(1) == pytest.approx((-0.1 - 0.25 - 1.0) / 3)


def test_one_tenants_word_moves_nobody_else():
    found = learn_usual(known(t1_x={"a": {1: 1.0, 2: 0.5}}))
    assert found.of(2) == SCALING_EXPONENT
    assert found.of(None) == SCALING_EXPONENT


def test_two_tenants_who_agree_are_believed_and_not_the_one_who_exaggerates():
    found = learn_usual(known(t1_x={"a": {1: 1.0, 2: 0.5}}, t2_x={"a": HALVES}))
    assert found.of(3) == pytest.approx(-0.3)


def test_jobs_without_a_label_say_nothing_of_others():
    assert learn_usual({"job:7": {"a": Measured(HALVES)}}) == Usual()


def test_one_size_goes_by_the_same_model_on_other_types():
    found = estimator(t1_x={"a": {1: 6.0}, "b": {1: 8.0, 2: 8.0, 4: 4.0}})
    assert [speed(found, "x", A, gpus) for gpus in (1, 2, 4, 8)] == pytest.approx([6.0, 6.0, 3.0, 1.5])


def test_other_types_that_differ_count_alike():
    found = estimator(t1_x={"a": {2: 6.0}, "b": HALVES, "c": {1: 8.0, 4: 8.0}})
    assert speed(found, "x", A, 8) == pytest.approx(6.0 * 4**-0.25)


def test_where_no_type_tells_it_goes_by_what_is_usual_for_the_tenant():
    found = estimator(t1_x={"a": {2: 6.0}}, t1_y={"b": HALVES})
    assert speed(found, "x", A, 8) == pytest.approx(6.0 * 4**-0.3)


def test_a_job_of_which_nothing_is_known_goes_by_it_too():
    found = estimator(t1_y={"b": HALVES})
    assert speed(found, "new", C, 4) / speed(found, "new", C, 1) == pytest.approx(4**-0.3)
    assert speed(found, "new", C, 4, tenant=2) / speed(found, "new", C, 1, tenant=2) == pytest.approx(4**-0.1)


def test_two_sizes_of_ones_own_go_before_all_that():
    found = estimator(t1_x={"a": {1: 6.0, 2: 6.0}, "b": HALVES}, t1_y={"b": HALVES})
    assert speed(found, "x", A, 8) == pytest.approx(6.0)


def test_over_several_nodes_another_number_of_gpus_costs_what_is_usual():
    cells = {cell_key("tenant:1:x", "a", 4, 2): Cell().add(6.0)}
    cells |= {cell_key("tenant:1:y", "b", gpus, 1): Cell().add(speed) for gpus, speed in HALVES.items()}
    found = estimator_for(Knowledge(cells), {}, [A, B])
    asked = found.per_gpu(job(1, 4, 16, tenant=1, model_label="x"), A, 16, 2)
    assert (asked.source, asked.per_gpu) == ("nodes", pytest.approx(6.0 * 4**-0.3))


SIZES = st.dictionaries(st.integers(1, 64), st.floats(1e-6, 1e9), max_size=4)
TYPES = st.dictionaries(st.sampled_from(["a", "b", "c"]), SIZES, max_size=3)


@given(st.dictionaries(st.sampled_from(["t1_x", "t1_y", "t2_x", "t3_x"]), TYPES, max_size=4), st.integers(1, 64))
def test_more_gpus_are_never_slower_together_nor_faster_each_than_what_was_measured(signatures, gpus):
    """Whatever was measured: with one size of its own a job loses none to all of what more GPUs add."""
    found = estimator(**signatures)
    for name, types in signatures.items():
        for on, sizes in ((A, types.get("a", {})), (B, types.get("b", {}))):
            if len(sizes) == 1:
                ((size, told),) = sizes.items()
                judged = speed(found, name[3:], on, gpus, tenant=int(name[1]))
                loss = told / judged if gpus > size else judged / told
                assert 0.9999999 <= loss <= max(size / gpus, gpus / size) * 1.0000001
