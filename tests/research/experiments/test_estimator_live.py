"""Experiment `estimator-live`: real runs of the example, taken in by the portal's own functions, beside what was predicted."""

import pytest

from research.experiments import estimator_live
from research.experiments.base import ExperimentError, Options
from research.experiments.estimator_live import Known, run, run_live

WHOLE = {"batch": 8, "parameters": 1_000_000, "samples": 160.0, "seconds": 4.0}


def rows(gpus, count=20):
    """Iterations of 0.2 s on one GPU; of several, 0.01 s of waiting and the exchange come to it."""
    several = [0.01, 0.005] if gpus > 1 else [None, None]
    return [[0.1, 0.03, 0.06, 0.01, several[1], several[0], 0.2 + 0.015 * (gpus > 1)]] * count


def test_a_size_is_predicted_by_the_model_until_it_was_measured():
    known = Known()
    assert known.take([WHOLE | {"rows": rows(1)}], 1) == pytest.approx(40)
    value, layer = known.predicted(2)
    assert layer == "theory"
    assert value == pytest.approx(8 / (0.1 + 0.03 + 0.06 + 0.2 * 0.005 + 0.01), rel=0.001), "loading overlaps nothing"
    known.take([WHOLE | {"samples": 320.0, "seconds": 4.3, "rows": rows(2)}], 2)
    assert known.predicted(2) == (pytest.approx(320 / 4.3 / 2), "measured")


@pytest.mark.impure  # a process
def test_a_run_that_fails_is_told():
    with pytest.raises(ExperimentError, match="ended with 2"):
        run_live(["--steps", "none"], gpus=1)


@pytest.mark.impure  # five trainings, up to two at the same time
def test_real_runs_fill_both_tables(monkeypatch):
    """How near a prediction is depends on how busy the machine is, so no test asks for it."""
    monkeypatch.setattr(estimator_live, "STABLE", ("--hit", "0.01"))
    monkeypatch.setattr(estimator_live, "UNSTABLE", ("--hit", "0.01", "--miss", "0.1", "--misses", "0.3"))
    stable, unstable = run(Options(quick=True)).tables
    assert [row[:2] for row in stable.rows] == [("python", 1), ("python", 2)]
    assert [row[:2] for row in unstable.rows] == [(1, "theory"), (2, "measured")]
    assert all(row[4] > 0 for row in stable.rows)
    assert all(row[3] > 0 for row in unstable.rows)
