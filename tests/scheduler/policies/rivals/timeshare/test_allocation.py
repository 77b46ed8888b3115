"""Gavel's fractions of time (OSDI '20, 4.1 and 4.3): the linear programs on examples that can be checked by hand."""

from __future__ import annotations

import pytest

from scheduler.policies.rivals.timeshare.allocation import Row, allocate, equal_throughput


def fractions(rows, gpus):
    found = allocate(rows, gpus, seed=1, remaining_s=lambda: 60.0)
    for name, count in gpus.items():
        used = sum(row.scale * found.fractions.get(row.job, {}).get(name, 0.0) for row in rows)
        assert used <= count + 1e-6, "no type is given out twice"
    assert all(sum(each.values()) <= 1 + 1e-6 for each in found.fractions.values()), "no job runs twice at a time"
    return found


def test_section_4_1_equal_shares_are_in_proportion_to_the_gpus_of_each_type():
    assert equal_throughput(Row(1, 1, {"a": 4.0, "b": 1.0}), {"a": 1, "b": 3}) == pytest.approx(1.75)


def test_section_4_1_each_job_goes_where_it_gains_most():
    """Both have 2.5 from equal shares and 4 from the type that suits them."""
    found = fractions([Row(1, 1, {"a": 4.0, "b": 1.0}), Row(2, 1, {"a": 1.0, "b": 4.0})], {"a": 1, "b": 1})
    assert found.level == pytest.approx(1.6)
    assert found.fractions[1]["a"] == pytest.approx(1)
    assert found.fractions[2]["b"] == pytest.approx(1)


def test_section_4_1_on_one_type_everybody_has_the_same_gpu_time():
    """A job of four GPUs runs a quarter as often as a job of one."""
    found = fractions([Row(1, 1, {"a": 9.0}), Row(2, 1, {"a": 1.0}), Row(3, 4, {"a": 5.0})], {"a": 2})
    assert found.fractions[1]["a"] == pytest.approx(1.0)
    assert found.fractions[2]["a"] == pytest.approx(1.0)
    found = fractions([Row(1, 1, {"a": 9.0}), Row(2, 1, {"a": 1.0}), Row(3, 2, {"a": 5.0})], {"a": 2})
    assert found.level == pytest.approx(2 / 3)
    assert [found.fractions[job]["a"] for job in (1, 2, 3)] == pytest.approx([2 / 3, 2 / 3, 1 / 3])


def test_section_4_1_weights():
    found = fractions([Row(1, 1, {"a": 1.0}, weight=3.0), Row(2, 1, {"a": 1.0}, weight=1.0)], {"a": 1})
    assert [found.fractions[job]["a"] for job in (1, 2)] == pytest.approx([0.75, 0.25])


def test_section_4_3_who_is_bound_by_a_scarce_type_does_not_hold_the_others_down():
    """Jobs 1 to 4 share the one GPU that serves them; jobs 5 and 6 share the other, and leave none of it idle."""
    scarce = [Row(number, 1, {"a": 1.0}) for number in (1, 2, 3, 4)]
    found = fractions([*scarce, Row(5, 1, {"b": 1.0}), Row(6, 1, {"b": 1.0})], {"a": 1, "b": 1})
    assert found.level == pytest.approx(0.25)
    assert found.fractions[4]["a"] == pytest.approx(0.25)
    assert [found.fractions[job]["b"] for job in (5, 6)] == pytest.approx([0.5, 0.5])


def test_who_fits_no_type_holds_nobody_down():
    found = fractions([Row(1, 1, {"a": 1.0}), Row(2, 8, {"a": 1.0})], {"a": 2})
    assert found.fractions == {1: {"a": pytest.approx(1.0)}}


def test_no_time_no_answer():
    assert allocate([Row(1, 1, {"a": 1.0})], {"a": 1}, seed=1, remaining_s=lambda: 0.0) is None
