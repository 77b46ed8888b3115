"""Latency ratio and age (Hops eq. 6-9; algorithms.md section 3)."""

import math
from itertools import product

import pytest

from scheduler.errors import InvalidJob
from scheduler.fairness.lrf import Age, age_from_samples, age_of, ages, ages_of, latency_ratio
from scheduler.model import RunHistory
from tests.scheduler.builders import job, past_of

PAST = past_of(
    *[(500.0, 1, "cv", None, 4)] * 200,
    *[(900.0, 5, "cv", None, 8)] * 241,
    *[(11_000.0, 5, "nlp", None, 8)] * 500,
    told={1: [1.5], 2: [0.01], 3: [40.0], 6: [9000.0] * 4, 77: [2.0]},
)


def test_the_papers_example_a_job_of_ten_minutes_that_waits_an_hour():
    assert latency_ratio(3600, 600) == 6
    assert latency_ratio(3600, 36_000) == 0.1


def test_equation_9():
    """6 of 8 GPUs are a, 2 are b: age = 0.75 * 1200 / (2 * 3) + 0.25 * 1200 / (1 * 3)."""
    asked = job(1, 2, 4, total_samples=1200.0)
    assert age_from_samples(asked, {"a": 2.0, "b": 1.0}, {"a": 6, "b": 2}) == pytest.approx(150 + 100)


def test_equation_9_is_renormalised_over_the_types_the_job_may_use():
    asked = job(1, 3, total_samples=1200.0, gpu_types=frozenset({"a"}))
    assert age_from_samples(asked, {"a": 2.0, "b": 1.0}, {"a": 6, "b": 2}) == pytest.approx(200)
    assert age_from_samples(asked, {"b": 1.0}, {"a": 6, "b": 2}) is None


@pytest.mark.parametrize("value", [math.nan, math.inf, 0.0, -2.0])
def test_equation_9_with_a_throughput_that_is_none(value):
    with pytest.raises(InvalidJob, match="job 5: throughput on a is"):
        age_from_samples(job(5, 1, total_samples=10.0), {"a": value}, {"a": 4})


AGES = [
    ({"age_s": 123.0, "total_samples": 9000.0}, (123, "fixed at first start")),
    ({"age_s": 123.0, "age_guessed": True, "total_samples": 9000.0}, (9000 / 10, "samples")),
    (
        {"age_s": 123.0, "age_guessed": True, "total_samples": 9000.0, "gpu_types": {"new"}},
        (123, "fixed at first start"),
    ),
    ({"total_samples": 9000.0, "expected_duration_s": 60.0}, (9000 / 10, "samples")),
    ({"expected_duration_s": 100.0}, (150, "declared")),
    ({"expected_duration_s": 100.0, "owner": 77}, (200, "declared")),
    ({"expected_duration_s": 1000.0, "tenant": 2}, (200, "declared")),  # ratio clipped to 0.2
    ({"expected_duration_s": 100.0, "tenant": 3}, (500, "declared")),  # and to 5
    ({"expected_duration_s": 1.0, "tenant": 6}, (11_000, "jobs of the cluster")),  # under-declaring does not pay
    ({"expected_duration_s": 100.0, "tenant": 4}, (100, "declared")),  # no past: taken at its word
    ({"category": "cv"}, (500, "tenant's jobs of the category")),
    ({"category": "cv", "tenant": 2}, (900, "jobs of the category")),
    ({"category": "speech"}, (11_000, "jobs of the cluster")),
    ({}, (11_000, "jobs of the cluster")),
]


def test_age_takes_the_first_rule_that_knows(subtests):
    for more, expected in AGES:
        with subtests.test(more=more):
            asked = job(1, 1, **{"age_s": None, **more})
            age = age_of(asked, PAST, tick_s=30, samples_per_s={"a": 10.0}, gpus_by_type={"a": 8})
            assert (age.age_s, age.source) == (pytest.approx(expected[0]), expected[1])


def test_age_with_no_past_is_an_hour_and_never_below_a_tick():
    assert age_of(job(1, 1, age_s=None), RunHistory(), tick_s=30).age_s == 3600
    assert age_of(job(1, 1, age_s=None, expected_duration_s=1.0), RunHistory(), tick_s=30).age_s == 30
    assert age_of(job(1, 1, age_s=2.0), RunHistory(), tick_s=30).age_s == 30


@pytest.mark.parametrize(("requirement", "ran_s"), [((1,), 200_000.0), ((1, 2, 4), 50_000.0), ((0,), 30.0)])
def test_a_job_that_was_stopped_is_expected_to_run_no_shorter_than_it_did(requirement, ran_s):
    """It declared a second, and ran for days: its rank would stay that of a job of a second."""
    ran = job(1, *requirement, age_s=1.0, expected_duration_s=1.0, attained_gpu_s=200_000.0)
    for past in (RunHistory(), PAST):
        assert age_of(ran, past, tick_s=30).age_s == ran_s


def test_all_ages_at_once_are_those_of_one_job_at_a_time():
    """Declared lengths of all kinds of records, and none."""
    asked = [
        job(number, 1, age_s=None, tenant=tenant, expected_duration_s=told, category=category)
        for number, (tenant, told, category) in enumerate(
            product(range(1, 9), (None, 1.0, 5000.0), ("cv", "nlp")), start=1
        )
    ]
    age = ages(PAST, tick_s=30, samples_per_s=dict, gpus_by_type={})
    one = [age_of(each, PAST, tick_s=30) for each in asked]
    assert [age(each) for each in asked] == one
    assert [Age(*each) for each in zip(*ages_of(asked, age), strict=True)] == one
