"""`./berth experiment forecast`: a series that goes on as it went comes true, one that jumps does not, and what it refuses."""

import gzip

import pytest

from research.experiments.base import ExperimentError, Options
from research.experiments.forecast import FILES
from research.experiments.registry import experiment_named


def record(folder, name, series):
    rows = ["container_ip,timestamp_anon,value"]
    rows += [f"c{n},{57 * at},{value}" for n, values in enumerate(series) for at, value in enumerate(values)]
    (folder / "knots").mkdir(exist_ok=True)
    (folder / "knots" / FILES[name]).write_bytes(
        gzip.compress("\n".join(reversed(rows[1:])).join([rows[0] + "\n", ""]).encode())
    )


def test_what_rises_steadily_comes_true_where_the_last_value_does_not(tmp_path):
    steady = [float(10 * at) for at in range(200)]
    record(tmp_path, "memory", [steady, [5.0] * 200])
    jumping = [float(at % 170) for at in range(800)]
    record(tmp_path, "duty cycle", [jumping])
    result = experiment_named("forecast").run(Options(data=tmp_path))
    found = result.json["heartbeats"]
    assert found["memory 570"]["true"] == found["memory 570"]["moved"] == 1.0
    assert found["memory 570"]["last"] < 0.5
    assert found["memory 57"]["trend"] == pytest.approx(0.5, abs=0.01)
    assert found["memory 57"]["error"] < 1e-6
    assert found["duty cycle 57"]["true"] < 1.0
    assert len(result.tables[0].rows) == 8


def test_without_the_record_or_with_another_file_it_says_so(tmp_path):
    with pytest.raises(ExperimentError, match="give --data DIR"):
        experiment_named("forecast").run(Options())
    record(tmp_path, "memory", [[5.0] * 50])
    with pytest.raises(ExperimentError, match="no series of which one follows its own past"):
        experiment_named("forecast").run(Options(data=tmp_path))
    (tmp_path / "knots" / FILES["memory"]).write_bytes(b"text")
    with pytest.raises(ExperimentError, match="cannot be read"):
        experiment_named("forecast").run(Options(data=tmp_path))
