"""`./berth experiment dqn`: a cut of it, each policy on each workload, the same answer again."""

import pytest

from research.experiments import dqn, dqn_pairs
from research.experiments.base import ExperimentError, Options
from research.experiments.registry import experiment_named
from scheduler.simulator.generators import dqngpu


@pytest.mark.slow
def test_each_policy_stands_beside_the_papers_figures_and_the_answer_is_the_same_again(monkeypatch):
    monkeypatch.setattr(dqngpu, "JOBS", 3)
    monkeypatch.setattr(dqn, "QUICK_UPDATES", 1)
    result = experiment_named("dqn").run(Options(quick=True))
    assert [[row[0] for row in table.rows] for table in result.tables[:5]] == [list(dqn.POLICIES)] * 5
    workloads = result.json["workloads"]
    assert set(workloads) == set(dqn.GROUPS)
    for found in workloads.values():
        assert set(found) == set(dqn.POLICIES)
        assert {"total_s", "gpu_util", "memory_util", "not_slowed", "oom"} <= set(found["dqn"])
        assert found["sjf"]["worst_slowdown"] == 1.0
        assert found["dqn"]["oom"] == found["deeprm-max"]["oom"] == 0
    assert "(4891; " in str(result.tables[0].rows[-1][1])
    monkeypatch.setattr(dqn, "GROUPS", dqn.GROUPS[:1])  # again, a part of it: both are trained anew
    again = experiment_named("dqn").run(Options(quick=True)).json["workloads"]
    assert again == {dqn.GROUPS[0]: workloads[dqn.GROUPS[0]]}


PAIRS = """gpu_type,job_a,scale_a,job_b,scale_b,norm_a,norm_b
v100,small,1,small,1,1.0,1.0
v100,small,1,middle,1,0.95,0.9
v100,small,1,large,1,0.9,0.5
v100,middle,1,middle,1,0.7,0.7
v100,middle,1,large,1,0.3,0.4
v100,large,1,large,1,0.0,0.0
"""


@pytest.mark.slow
def test_on_measured_pairs_who_knows_them_all_shares_without_slowing_anybody_by_more_than_a_fifth(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(dqn_pairs, "JOBS", 6)
    monkeypatch.setattr(dqn_pairs, "FEW", 4)
    (tmp_path / "gavel").mkdir()
    (tmp_path / "gavel" / "colocated_throughputs.csv").write_text(PAIRS)
    dqn_pairs.world_of.cache_clear()
    (table, equal), found = dqn_pairs.measured(Options(data=tmp_path, seeds=2), 1)
    assert [row[0] for row in table.rows][:2] == ["exclusive (SJF)", "tetris"]
    assert found["sjf"]["throughput"] == 1.0
    assert found["pair-table"]["throughput"] > 1.1
    assert found["pair-table"]["worst_slowdown"] <= 1.25
    assert found["cbp-pp, 20 %, all known"]["worst_slowdown"] <= 1.2 < found["cbp-pp"]["worst_slowdown"]
    assert found["cbp-pp, 20 %, all known"]["throughput"] > 1.0
    assert [row[0] for row in equal.rows][-2:] != ["cbp-pp", "cbp-pp"]
    assert all(each["oom"] == 0 for each in found.values())
    assert found["sjf"]["over_best"] > found["pair-table"]["over_best"] >= 0.9


def test_without_the_table_of_pairs_it_says_what_is_missing(tmp_path):
    with pytest.raises(ExperimentError, match="holds no gavel"):
        dqn_pairs.measured(Options(data=tmp_path), 1)
    (tmp_path / "gavel").mkdir()
    (tmp_path / "gavel" / "colocated_throughputs.csv").write_text("a,b")
    with pytest.raises(ExperimentError, match="no column gpu_type"):
        dqn_pairs.measured(Options(data=tmp_path), 1)
