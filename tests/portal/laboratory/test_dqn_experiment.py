"""`./berth experiment dqn`: a cut of it, each policy on each workload, the same answer again."""

from portal.laboratory.experiments import dqn
from portal.laboratory.experiments.base import Options
from portal.laboratory.experiments.registry import experiment_named
from scheduler.simulator.generators import dqngpu


def test_each_policy_stands_beside_the_papers_figures_and_the_answer_is_the_same_again(monkeypatch):
    monkeypatch.setattr(dqngpu, "JOBS", 5)
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
    assert experiment_named("dqn").run(Options(quick=True)).json == result.json
