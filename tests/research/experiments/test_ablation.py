"""`./berth experiment ablation`: every rule left out in turn, what it changes, and the workloads that it is tried on."""

import numpy as np
import pytest

from research.experiments import ablation, ablation_workloads
from research.experiments.ablation_workloads import Workload, mixed, philly_week, workloads
from research.experiments.base import Options
from research.simulator.generators.tenants_mix import generate
from scheduler.rules import RULES


def tiny(seed):
    jobs, world = mixed(0.5, seed)
    return jobs[:12], world


@pytest.mark.slow
def test_each_rule_stands_in_a_row_with_what_it_changes(monkeypatch):
    monkeypatch.setattr(ablation, "workloads", lambda _: [Workload("tiny", tiny, seeds=True)])
    result = ablation.run(Options())
    own, summary = result.tables
    assert [row[0] for row in own.rows] == ["all rules", *(f"without {rule}" for rule in RULES)]
    assert [row[0] for row in summary.rows] == list(RULES)
    figures = result.json["workloads"]["tiny"]
    change = 100 * (figures["arrays"]["mean_jct_h"] / figures["all rules"]["mean_jct_h"] - 1)
    assert summary.rows[0][1] == f"{change:+.1f}"
    assert f"({change:+.1f})" in own.rows[1][1]


def test_a_change_is_told_where_there_is_something_to_compare_with():
    assert ablation.change_pct(1.5, 1.0) == pytest.approx(50)
    assert ablation.change_pct(1.5, 0.0) is ablation.change_pct(None, 1.0) is None


def test_three_tenants_ask_for_about_what_the_cluster_can_do():
    jobs, world = generate(np.random.default_rng(1), hours=24.0)
    assert sum(each.gpus_total for each in world.nodes) == 52
    assert {job.job.tenant for job in jobs} == {1, 2, 3}
    assert {len(job.job.requirement) > 1 for job in jobs if job.job.tenant == 1} == {True}
    assert not any(job.job.movable for job in jobs if job.job.tenant == 3)
    assert max(job.job.requirement[0] for job in jobs) > 8
    again, _ = generate(np.random.default_rng(1), hours=24.0)
    assert [each.job for each in again] == [each.job for each in jobs]


def test_a_week_of_philly_is_that_week_from_its_beginning(tmp_path):
    file = tmp_path / "philly_jobs.csv"
    rows = ["2017-10-20 23:59:59,60,1,60,a", "2017-10-21 00:01:00,60,8,480,a", "2017-10-29 00:00:00,60,1,60,b"]
    file.write_text("timestamp,duration,num_gpus,gpu_time,cluster\n" + "\n".join(rows) + "\n")
    jobs, world = philly_week(file, 7.0, 1)
    assert [(each.job.submitted_s, each.job.requirement) for each in jobs] == [(60.0, (8,))]
    assert sum(each.gpus_total for each in world.nodes) == 418


def test_without_public_data_two_workloads_remain():
    assert [each.name for each in workloads(Options())] == ["hops-512 quick", "three tenants"]
    assert workloads(Options(quick=True))[0].prepare.args == (ablation_workloads.HOPS_QUICK,)
