"""`./berth bench forecast`: the replay that start ranges are measured on."""

import json

import pytest

from research.bench.errors import BenchError
from research.bench.forecasting import forecast_measure, forecast_report


def measured(**more):
    return forecast_measure(**{"workload": "demo", "data": None, "seed": 1, "hours": 0.15, "learns": True, **more})


@pytest.mark.slow
def test_nine_minutes_of_the_demo():
    figures = measured()
    every = figures["ahead"]["all"]
    assert figures["jobs"] > 24  # what the demo begins with, and some that come
    assert figures["unsettled"] == 0
    assert every["jobs"] == sum(each["jobs"] for name, each in figures["ahead"].items() if name != "all") > 10
    assert 0 < every["coverage"] <= 1
    assert json.loads(forecast_report(figures, as_json=True))["ahead"]["all"]["jobs"] == every["jobs"]
    assert f"| all | {every['jobs']} | {every['coverage']:.2f} |" in forecast_report(figures, as_json=False)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_ranges():
    first, again, other = (measured(hours=0.01, seed=seed)["ahead"] for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_philly_needs_its_folder(tmp_path):
    with pytest.raises(BenchError, match="--data DIR"):
        measured(workload="philly")
    with pytest.raises(BenchError, match="philly"):
        measured(workload="philly", data=tmp_path)
    with pytest.raises(BenchError, match="--hours"):
        measured(hours=0.0)
