"""`./berth bench planning`: the keys it promises, and its refusals. Times are printed, never asserted."""

import json

import pytest

from research.bench.planning import PlanningBenchError, own_speeds_measure, planning_measure, planning_report

KEYS = {"gpus", "jobs", "window_jobs", "variables", "build_s", "solve_s", "total_s", "objective", "bound", "gap"}


@pytest.mark.parametrize("workload", ["gpu-only", "cores"])
def test_both_formulations_on_a_small_instance(workload):
    figures = planning_measure(gpus=40, jobs=20, seed=3, workload=workload, limit_s=20)
    assert json.loads(planning_report(figures, as_json=True))["speedup"] > 0
    for name in ("located", "aggregated"):
        assert set(figures[name]) >= KEYS
        assert figures[name]["bound"] >= figures[name]["objective"] - 1e-6
    assert figures["aggregated"]["gap"] <= figures["aggregated"]["gap_allowed"]
    assert figures["aggregated"]["objective"] >= figures["located"]["objective"] * 0.98


def test_one_formulation_has_no_speedup():
    figures = planning_measure(gpus=16, jobs=5, seed=1, formulation="aggregated")
    assert "located" not in figures
    assert "speedup" not in figures
    assert "aggregated" in planning_report(figures, as_json=False)


def test_speeds_of_single_servers_are_compared_with_none():
    figures = own_speeds_measure(gpus=160, jobs=30, seed=1, workload="gpu-only", gap=None, limit_s=20, own_speeds=12)
    assert "with 12 speeds of single servers" in planning_report(figures, as_json=False)
    assert figures["dearer"] > 0
    assert figures["with_own"]["candidates"] > figures["aggregated"]["candidates"]


@pytest.mark.parametrize("wrong", [{"gpus": 0}, {"jobs": 0}, {"limit_s": 0.0}])
def test_refusals(wrong):
    with pytest.raises(PlanningBenchError, match="must be"):
        planning_measure(**{"gpus": 8, "jobs": 1, "seed": 1} | wrong)
