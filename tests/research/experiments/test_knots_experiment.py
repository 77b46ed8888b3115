"""`./berth experiment knots`: a cut of it, each policy and mix, the same answer again."""

import pytest

from research.experiments import knots, knots_cluster
from research.experiments.base import Options
from research.experiments.registry import experiment_named


@pytest.mark.slow
def test_each_policy_stands_beside_the_papers_figures_and_the_answer_is_the_same_again(monkeypatch):
    monkeypatch.setattr(knots, "QUICK_HOURS", 0.01)
    monkeypatch.setattr(knots_cluster, "QUICK_PART", 1 / 256)
    monkeypatch.setattr(knots_cluster, "STEP_S", 40 * knots_cluster.STEP_S)
    result = experiment_named("knots").run(Options(quick=True))
    rows = [[row[0] for row in table.rows] for table in result.tables]
    assert rows == [list(knots.POLICIES)] * 3 + [list(knots_cluster.POLICIES)] * 2
    assert "(0.530; " in str(result.tables[0].rows[1][4])
    for found in result.json["mixes"].values():
        assert {found[policy]["ended"] for policy in knots.POLICIES} == {found["exclusive"]["ended"]}
        assert found["exclusive"]["shared_gpu_hours"] == 0
        assert found["exclusive"]["ended"] > 0
    for by_policy in result.json["cluster"].values():
        assert {by_policy[policy]["ended"] for policy in knots_cluster.POLICIES} == {7}
    monkeypatch.setattr(knots, "MIXES", (1,))  # again, a part of it
    monkeypatch.setattr(knots_cluster, "GPUS", (256,))
    again = experiment_named("knots").run(Options(quick=True)).json
    assert again["mixes"] == {"1": result.json["mixes"]["1"]}
    assert again["cluster"] == {"256": result.json["cluster"]["256"]}
