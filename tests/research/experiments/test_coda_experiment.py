"""Experiment `coda`: how its figures come about, and that it runs as a whole."""

from dataclasses import replace

import pytest

from research.experiments import coda, coda_pressed, contention
from research.experiments.base import Options
from research.experiments.coda_runs.figures import over_time
from research.experiments.coda_runs.jobs import jobs_of, tables_of
from research.experiments.registry import experiment_named
from scheduler.simulator.records import JobRecord, PlanningRecord, Run
from tests.scheduler.simulator.cases import traced

PLANNING = PlanningRecord(
    at_s=0.0,
    replan=False,
    queue_gpu_jobs=0,
    queue_cpu_jobs=0,
    gpus_allocated=0,
    cores_allocated=0,
    fragments=0,
    placed=0,
    stopped=0,
    rate=0.0,
    solve_s=0.5,
)
JOB = JobRecord(
    job=1,
    name="",
    tenant=1,
    category=None,
    requirement=(1,),
    submitted_s=0.0,
    started_s=0.0,
    ended_s=1.0,
    state="COMPLETED",
    wait_s=0.0,
    age_s=None,
    ran_s=1.0,
    gpu_s=1.0,
    restarts=0,
    gpus_first=1,
    gpus_mean=1.0,
    ideal_s=None,
)


def made_of(plannings=(), jobs=()):
    return Run("fifo", 1, 10, 100, 0.0, 360.0, jobs, plannings, 0.0)


def test_rates_hold_from_planning_to_planning_and_count_the_measured_window_alone():
    """CODA VI-B, VI-C: while GPU jobs wait 5 and 9 of 10 GPUs are active, 10 s and 30 s; 3 and 0 idle for want of cores."""
    plannings = [
        replace(PLANNING, at_s=0.0, gpus_allocated=1),
        replace(PLANNING, at_s=90.0, gpus_allocated=5, queue_gpu_jobs=1, fragments=5, fragments_cores=3),
        replace(PLANNING, at_s=110.0, gpus_allocated=9, queue_gpu_jobs=2, fragments=1),
        replace(PLANNING, at_s=140.0, gpus_allocated=4),
    ]
    figures = over_time(made_of(plannings), 100.0, 200.0)
    assert figures == {
        "gpu_active_rate_while_queued": pytest.approx((10 * 5 + 30 * 9) / 40 / 10),
        "gpu_active_rate_while_queued_long": None,
        "fragmentation": pytest.approx(10 * 3 / 40 / 10),
        "fragment_rate": pytest.approx((10 * 5 + 30 * 1) / 100 / 10),
        "fragment_rate_while_queued": pytest.approx((10 * 5 + 30 * 1) / 40 / 10),
        "gpu_active_rate": pytest.approx((10 * 5 + 30 * 9 + 60 * 4) / 100 / 10),
        "queued_share": pytest.approx(0.4),
        "queued_long_share": 0.0,
    }


def test_time_in_which_a_gpu_job_has_waited_longer_than_a_tick_counts_by_itself():
    """Past 30 s of waiting: from 100 s (since 40) to 120 and from 150 to 180 s, two jobs at once; CPU jobs do not count."""
    plannings = [
        replace(PLANNING, at_s=0.0, gpus_allocated=6),
        replace(PLANNING, at_s=110.0, gpus_allocated=8),
        replace(PLANNING, at_s=160.0, gpus_allocated=9),
    ]
    times = [(40.0, 120.0), (120.0, 160.0), (125.0, 180.0), (130.0, 159.0)]
    jobs = [replace(JOB, job=n, submitted_s=at_s, started_s=end_s) for n, (at_s, end_s) in enumerate(times)]
    jobs.append(replace(JOB, job=9, requirement=(0,), submitted_s=0.0, started_s=None))
    figures = over_time(made_of(plannings, jobs), 100.0, 200.0)
    assert figures["queued_long_share"] == pytest.approx(0.5)
    assert figures["gpu_active_rate_while_queued_long"] == pytest.approx((10 * 6 + 10 * 8 + 10 * 8 + 20 * 9) / 50 / 10)
    never = over_time(made_of(plannings, [replace(JOB, submitted_s=160.0, started_s=None)]), 100.0, 200.0)
    assert never["queued_long_share"] == pytest.approx(0.1)


def test_where_nobody_queues_there_is_no_rate_while_jobs_queue_and_medians_are_of_the_other_seeds():
    figures = over_time(made_of([PLANNING]), 100.0, 200.0)
    assert (figures["gpu_active_rate_while_queued"], figures["fragmentation"]) == (None, 0.0)
    assert coda.medians_of([{"rate": None}, {"rate": 0.25}, {"rate": 0.75}]) == {"rate": 0.5}
    assert coda.medians_of([{"rate": None}]) == {"rate": None}


def test_jobs_count_by_all_their_waiting_once_the_cluster_is_filled():
    day_s = 86_400.0
    waits = {1: 0.0, 2: 700.0, 3: 3700.0, 4: 5.0}
    jobs = [replace(JOB, job=n, submitted_s=day_s / 2, wait_s=wait_s) for n, wait_s in waits.items()]
    early = replace(JOB, job=5, submitted_s=day_s / 8, wait_s=9e9)
    cpu = [replace(JOB, job=6, requirement=(0,), submitted_s=day_s / 2, wait_s=100.0)]
    figures = coda.digest(made_of([PLANNING], [*jobs, early, *cpu]), days=1.0, warm_days=0.25)
    assert (figures["gpu_jobs"], figures["cpu_jobs"]) == (4, 1)
    assert figures["gpu_jobs_without_waiting"] == 0.25
    assert (figures["gpu_jobs_over_10_min"], figures["gpu_jobs_over_1_h"]) == (0.5, 0.25)
    assert (figures["cpu_jobs_within_10_s"], figures["cpu_jobs_within_3_min"]) == (0.0, 1.0)
    assert figures["solve_s"] == 0.5


def told(policy, *jobs):
    """The facts read of a run: (number, tenant, cores asked, cores in the end, waited, ran) each; the last before the window."""
    early = (99, 1, 1, 9, 9e9, 1.0)
    rows = [(*each, 500.0) for each in jobs] + [(*early, 50.0)]
    records = [
        replace(
            JOB,
            job=n,
            name=f"m{n}",
            tenant=who,
            wait_s=wait_s,
            ran_s=ran_s,
            submitted_s=at_s,
            cores=None if policy == "fifo" else cores,
        )
        for n, who, _, cores, wait_s, ran_s, at_s in rows
    ]
    records.append(replace(JOB, job=50, tenant=2, requirement=(0,), submitted_s=500.0, wait_s=60.0))
    traced_jobs = {n: traced(n, 1, cores=asked) for n, _, asked, *_ in rows}
    return jobs_of(made_of([PLANNING], records), traced_jobs, 100.0)


def test_users_single_jobs_and_changes_of_cores_are_told_as_figures_12_to_14_show_them():
    fifo = told("fifo", (1, 1, 2, 2, 600.0, 900.0), (2, 1, 12, 12, 0.0, 100.0), (3, 2, 3, 3, 30.0, 500.0))
    coda = told("coda", (1, 1, 2, 5, 0.0, 500.0), (2, 1, 12, 3, 0.0, 120.0), (3, 2, 3, 3, 30.0, 500.0))
    (users, single, changed), figures = tables_of({"fifo": [fifo], "coda": [coda]})
    assert [row[:2] for row in users.rows] == [(1, 2), (2, 2)]
    assert [row[2:] for row in users.rows] == [pytest.approx((9.9, 0.0)), pytest.approx((0.995, 0.995))]
    assert single.rows[0] == ("m1", 2, 2, 10.0, 15.0, 5, 0.0, pytest.approx(500 / 60))
    assert figures["faster"] == {
        "coda": {
            "queued": 1.0,
            "ran": pytest.approx(1 / 3),
            "longer": pytest.approx(1 / 3),
            "whole": pytest.approx(1 / 3),
        }
    }
    assert figures["tuned"]["coda"] == {"up": 1 / 3, "down": 1 / 3, "most_up": 3, "most_down": 9}
    assert [row[0] for row in changed.rows] == ["coda"], "a policy that changes nothing stands in no table of changes"
    assert "0.571" in changed.text()


def test_it_runs_with_asked_cores_under_fifo_and_tuned_ones_under_coda(monkeypatch):
    monkeypatch.setattr(coda, "QUICK_DAYS", 0.05)
    monkeypatch.setattr(coda, "QUICK_WARM_DAYS", 0.01)
    monkeypatch.setattr(coda, "POLICIES", ("fifo", "coda"))
    result = experiment_named("coda").run(Options(quick=True))
    fifo, mine = (result.json["policies"][name] for name in ("fifo", "coda"))
    assert fifo["gpu_jobs"] == mine["gpu_jobs"] > 0
    assert fifo["gpu_jobs_without_waiting"] == 1.0
    assert "0.835" in result.tables[0].text()
    assert "GPU jobs did: fifo 0, coda 0." in result.tables[0].note
    assert [table.title[:9] for table in result.tables[1:]] == ["Figure 12", "Figure 13", "Figure 14"]
    assert 0 < result.json["tuned"]["coda"]["up"] < 1


def test_the_calibration_runs_fifo_alone_and_says_whether_it_is_within(monkeypatch):
    monkeypatch.setattr(coda, "QUICK_DAYS", 0.03)
    monkeypatch.setattr(coda, "QUICK_WARM_DAYS", 0.01)
    result = experiment_named("coda").calibrate(Options(quick=True))
    assert result.json["within"] is False
    assert "NOT within" in result.tables[0].note
    assert len(result.json["figures"]) == len(result.tables[0].rows) == 1 + len(coda.TRIED)


def test_pressed_has_all_policies_do_twice_the_gpu_jobs(monkeypatch):
    monkeypatch.setattr(coda_pressed, "QUICK_DAYS", 0.1)
    monkeypatch.setattr(coda_pressed, "QUICK_WARM_DAYS", 0.02)
    monkeypatch.setattr(coda_pressed, "POLICIES", ("fifo", "coda"))
    result = experiment_named("coda-pressed").run(Options(quick=True))
    jobs, _ = coda.prepare(1, days=0.1, tunes_cores=False, load=2.0)
    measured = [each for each in jobs if each.job.submitted_s >= 0.02 * coda.DAY_S and each.job.requirement != (0,)]
    fifo, mine = (result.json["policies"][name] for name in ("fifo", "coda"))
    assert fifo["gpu_jobs"] == mine["gpu_jobs"] == len(measured) > 0
    assert len(result.tables[0].rows) == 2
    assert "2 times the GPU jobs" in result.tables[0].title


@pytest.mark.slow
def test_the_eliminator_is_judged_on_the_same_jobs_with_it_and_without(monkeypatch):
    monkeypatch.setattr(contention, "QUICK_DAYS", 0.1)
    monkeypatch.setattr(contention, "QUICK_WARM_DAYS", 0.02)
    monkeypatch.setattr(contention, "HEAVY", (0.2,))
    result = experiment_named("contention").run(Options(quick=True))
    held, left = (result.json["heavy"]["0.2"][name] for name in ("with", "without"))
    assert held["gpu_jobs"] == left["gpu_jobs"] > 0
    assert held["gpu_utilisation"] > left["gpu_utilisation"]
    assert held["traffic_jobs_slowed"] > left["traffic_jobs_slowed"] == pytest.approx(1.0)
    assert [row[:2] for row in result.tables[0].rows] == [("20 %", "on"), ("20 %", "off")]
