"""Experiment `cores`: the searches of section 8 on curves by class."""

import json
import os
from pathlib import Path

import pytest

from research.experiments.base import ExperimentError, Options
from research.experiments.cores import curves, run

DOCUMENT = {
    "cpu_index_per_gpu": [1, 2, 3, 6],
    "models": {
        "res50_1": {"tput": [[0.2, 0.4], [0.2, 0.8], [0.2, 1.0], [0.2, 1.0]]},
        "m5_1": {"tput": [[1], [2], [3], [6]]},
        "bert_2": {"tput": [[1], [1], [1], [0]]},
    },
}


@pytest.fixture
def folder(tmp_path):
    def write(document):
        (tmp_path / "synergy").mkdir(exist_ok=True)
        (tmp_path / "synergy" / "cpu_mem_profiles.json").write_text(json.dumps(document))
        return tmp_path

    return write


def test_curves_are_at_the_best_memory_interpolated_and_end_with_the_nodes_cores(folder):
    bert, m5, res50 = curves(folder(DOCUMENT) / "synergy" / "cpu_mem_profiles.json")
    assert (bert.category, bert.speeds, bert.optimum) == ("nlp", (1.0, 1.0, 1.0), 1)
    assert m5.speeds == pytest.approx([1 / 6, 2 / 6, 3 / 6, 4 / 6, 5 / 6, 1.0])
    assert (res50.speeds, res50.optimum) == ((0.4, 0.8, 1.0, 1.0, 1.0, 1.0), 3)


def test_both_searches_and_their_figures(folder):
    """Bert 3, 2, 1 (cut to the 3 there are); m5 5, 4, 6; res50 3, 2, 4."""
    result = run(Options(data=folder(DOCUMENT)))
    assert result.json["one_core"] == {
        "classes": 3,
        "mean_steps": 3.0,
        "max_steps": 3,
        "optima_found": 3,
        "max_cores_off": 0,
        "held_too_long": 0,
        "min_relative_speed": 1.0,
    }
    assert "res50_1" in result.tables[1].text()
    assert {name: result.json[name] for name in result.json["fast"]} == result.json["fast"], (
        "Berth's own stand alone too"
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"models": None}, "cpu_index_per_gpu and models are needed"),
        ({"models": {"a": {"tput": [[1], [2]]}}}, "model a: tput must hold a row"),
        ({"models": {"a": {"tput": [[0], [1], [1], [1]]}}}, "model a: no speed is given at one core"),
    ],
)
def test_a_bad_file_is_refused_by_name(folder, change, words):
    with pytest.raises(ExperimentError, match=words):
        run(Options(data=folder({**DOCUMENT, **change})))


def test_without_data_it_says_what_is_missing(tmp_path):
    with pytest.raises(ExperimentError, match="give --data DIR"):
        run(Options())
    with pytest.raises(ExperimentError, match="holds no synergy/"):
        run(Options(data=tmp_path))


@pytest.mark.skipif("BERTH_TRACE_DATA" not in os.environ, reason="BERTH_TRACE_DATA names no folder of public traces")
def test_the_33_measured_classes():
    """The one-core rule finds every optimum; the faster search takes 5 steps on average and 8 at most, for 98 % of the speed."""
    figures = run(Options(data=Path(os.environ["BERTH_TRACE_DATA"]))).json
    one, fast = figures["one_core"], figures["fast"]
    assert (one["classes"], one["optima_found"], one["max_cores_off"]) == (33, 33, 0)
    assert one["mean_steps"] <= 5.5
    assert one["held_too_long"] == fast["held_too_long"] == 0
    assert fast["optima_found"] == 33
    assert fast["mean_steps"] <= 5
    assert fast["max_steps"] <= 8
    assert fast["min_relative_speed"] >= 0.98
