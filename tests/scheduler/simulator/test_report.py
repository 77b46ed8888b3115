"""The figures of section 13, from records written by hand: each against what a pencil finds."""

import json
from dataclasses import replace

import pytest

from scheduler.simulator.records import JobRecord, PlanningRecord, Run
from scheduler.simulator.report import SAMPLED, curves, figures


def record(number, *requirement, came_s=0.0, waited_s=0.0, ran_s=3600.0, tenant=1, **more):
    start_s = came_s + waited_s
    known = {
        "job": number,
        "name": f"j{number}",
        "tenant": tenant,
        "category": None,
        "requirement": requirement or (1,),
        "submitted_s": came_s,
        "started_s": start_s,
        "ended_s": start_s + ran_s,
        "state": "COMPLETED",
        "wait_s": waited_s,
        "age_s": 3600.0,
        "ran_s": ran_s,
        "gpu_s": ran_s * sum(requirement[:1]),
        "restarts": 0,
        "gpus_first": 1,
        "gpus_mean": 1.0,
        "ideal_s": 1800.0,
    }
    return JobRecord(**known | more)


def planned(at_s, allocated, *, queue=0, fragments=0, solve_s=0.1, rate=0.0):
    return PlanningRecord(at_s, False, queue, 0, allocated, 0, fragments, 0, 0, rate, solve_s)


def run_of(jobs, plannings=(), *, ended_s=7200.0, gpus=4):
    return Run("fifo", 1, gpus, 0, 30.0, 360.0, jobs, plannings, ended_s)


TWO = run_of(
    [record(1, 2), record(2, 1, came_s=600.0, waited_s=1800.0, ran_s=1200.0, tenant=2)],
    [
        planned(0, 2, rate=2.0),
        planned(600, 2, queue=1, fragments=2, rate=2.0),
        planned(2400, 3, rate=3.0),
        planned(3600, 0),
    ],
    ended_s=3600.0,
)


def test_times_are_in_hours_from_submission_to_end():
    found = figures(TWO)
    assert found["mean_jct_h"] == pytest.approx((1 + 3000 / 3600) / 2)
    assert found["median_jct_h"] == pytest.approx((1 + 3000 / 3600) / 2)
    assert found["makespan_h"] == 1.0
    assert found["mean_wait_h"] == 0.25
    assert (found["mean_lr"], found["max_lr"]) == (0.25, 0.5)


def test_ftf_is_the_time_had_over_the_time_alone_on_an_equal_part():
    found = figures(TWO)
    assert found["max_ftf"] == 2.0
    assert found["mean_ftf"] == pytest.approx((2 + 3000 / 1800) / 2)
    assert found["unfair_share"] == 1.0


def test_rates_are_weighted_by_time():
    found = figures(TWO)
    assert found["gpu_active_rate"] == pytest.approx((2 * 2400 + 3 * 1200) / 3600 / 4)
    assert found["gpu_active_rate_queued"] == 0.5
    assert found["queued_time_share"] == 0.5
    assert found["fragments_per_round"] == 1.0
    assert found["fragment_rate"] == 0.25
    assert found["fragment_rate_queued"] == 0.5
    assert found["mean_throughput"] == pytest.approx((2 * 2400 + 3 * 1200) / 3600)


def test_waiting_is_told_by_kind_of_job_and_by_tenant():
    jobs = [*TWO.jobs, record(3, 0, waited_s=100.0), record(4, 0, waited_s=200.0)]
    found = figures(run_of(jobs))
    assert (found["gpu_jobs"], found["gpu_jobs_unwaiting_share"], found["gpu_jobs_over_10min_share"]) == (2, 0.5, 0.5)
    assert (found["cpu_jobs"], found["cpu_jobs_within_3min_share"]) == (2, 0.5)
    assert found["tenants"]["2"]["p99_wait_h"] == 0.5
    assert found["tenants"]["1"]["jobs"] == 3


def test_who_never_started_is_counted_and_in_no_mean():
    waiting = record(3, 1, waited_s=7200.0, started_s=None, ended_s=None, state="UNFINISHED", age_s=None, ideal_s=None)
    found = figures(run_of([*TWO.jobs, waiting]))
    assert (found["jobs"], found["jobs_unfinished"], found["jobs_unstarted"]) == (3, 1, 1)
    assert found["mean_jct_h"] == figures(TWO)["mean_jct_h"]
    assert found["mean_lr"] == 0.25
    assert found["max_wait_h"] == 2.0


def test_who_would_have_come_later_counts_nowhere():
    later = record(3, 1, came_s=9000.0, started_s=None, ended_s=None, state="UNFINISHED", age_s=None, ideal_s=None)
    found = figures(replace(TWO, jobs=[*TWO.jobs, later]))
    assert found == figures(TWO) | {"jobs_to_come": 1}
    assert curves(replace(TWO, jobs=[*TWO.jobs, later])) == curves(TWO)


def test_of_nothing_there_are_no_figures_and_no_error():
    found = figures(run_of([], ended_s=0.0))
    assert found["jobs"] == 0
    assert found["mean_jct_h"] is None
    assert found["gpu_active_rate"] is None
    assert curves(run_of([], ended_s=0.0))["throughput"] == []


def test_the_same_run_is_the_same_bytes_timings_apart():
    """Wall times stand in `solve_*` alone."""

    def told(run):
        both = figures(run) | curves(run)
        return json.dumps(
            {name: value for name, value in both.items() if not name.startswith("solve_")}, allow_nan=False
        )

    slower = replace(TWO, plannings=[replace(each, solve_s=9.0) for each in TWO.plannings])
    assert told(TWO) == told(slower)
    assert figures(TWO)["solve_p95_s"] != figures(slower)["solve_p95_s"]


def test_courses_are_means_over_equal_spans():
    drawn = curves(TWO)
    assert drawn["hours"][0] == pytest.approx(1 / 480)
    assert drawn["active_rate"][0] == 0.5
    assert drawn["active_rate"][-1] == 0.75
    assert sum(drawn["throughput"]) / 240 == pytest.approx(figures(TWO)["mean_throughput"])
    assert drawn["fragments"] == pytest.approx([0, 2 * 120 / 360, 2, 2, 2, 2, 2 * 240 / 360, 0, 0, 0], abs=1e-9)
    assert drawn["cdf_wait_h"] == [0.0, 0.5]


def test_the_sample_has_the_same_jobs_under_each_rule_by_submission():
    late = record(3, came_s=9.0, ended_s=None, state="UNFINISHED", age_s=None, waited_s=1800.0)
    jobs = [record(n, came_s=n / 1e3, waited_s=36.0 * (n % 7)) for n in range(10, 10 + 2 * SAMPLED + 5)]
    found = curves(run_of([late, *reversed(jobs)]))["jobs"]
    assert len(found) <= SAMPLED
    assert found[:2] == [(0.03, 1.0, 0.03), (0.06, 1.0, 0.06)]
    assert curves(run_of([late]))["jobs"] == [(0.5, None, None)]
