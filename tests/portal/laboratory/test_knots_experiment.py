"""`./berth experiment knots`: a cut of it, each policy and mix, the same answer again."""

from portal.laboratory.experiments import knots
from portal.laboratory.experiments.base import Options
from portal.laboratory.experiments.registry import experiment_named


def test_each_policy_stands_beside_the_papers_figures_and_the_answer_is_the_same_again(monkeypatch):
    monkeypatch.setattr(knots, "QUICK_HOURS", 0.02)
    result = experiment_named("knots").run(Options(quick=True))
    assert [[row[0] for row in table.rows] for table in result.tables] == [list(knots.POLICIES)] * 3
    assert "(0.530; " in str(result.tables[0].rows[1][4])
    for found in result.json["mixes"].values():
        assert {found[policy]["ended"] for policy in knots.POLICIES} == {found["exclusive"]["ended"]}
        assert found["exclusive"]["shared_gpu_hours"] == 0
        assert found["exclusive"]["ended"] > 0
    assert experiment_named("knots").run(Options(quick=True)).json == result.json
