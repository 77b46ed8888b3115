import json
import re
from pathlib import Path

from portal.pages.dashboard.parts import figures

START, END = "2026-11-20T12:00:00+00:00", "2026-11-20T13:00:00+00:00"
ROWS = [(START, 1.0), ("2026-11-20T12:30:00+00:00", None), (END, 3.0)]
TOKENS = set(re.findall(r"--b-([a-z0-9-]+):", Path("static/css/tokens.css").read_text()))


def every_figure():
    yield figures.latency_ratio(ROWS, ROWS)
    yield figures.course([("GPU active", "plot-1", ROWS), ("CPU active", "plot-3", [])], start=START, end=END, high=100)
    yield figures.fragments([(START, 1, 4, 2), (END, None, None, None)])


def colours(node, key=""):
    if isinstance(node, dict):
        return [found for name, value in node.items() for found in colours(value, name)]
    if isinstance(node, list):
        return [found for value in node for found in colours(value, key)]
    return [node] if key.lower().endswith("color") else []


def test_figures_are_json_and_name_only_tokens():
    for figure in every_figure():
        json.dumps(figure, allow_nan=False)
        assert {name.split("/")[0] for name in colours(figure)} <= TOKENS


def test_no_data_stays_a_gap_and_is_never_nought():
    raqlr = figures.latency_ratio(ROWS, [])["data"][0]
    assert raqlr["y"] == [1.0, None, 3.0]
    assert raqlr["connectgaps"] is False


def test_the_line_ends_in_its_value_and_there_is_no_legend():
    layout = figures.latency_ratio(ROWS, [])["layout"]
    assert [note["text"] for note in layout["annotations"]] == ["3.00"]


def test_the_most_at_a_time_is_a_dash_over_its_bar():
    dashes = figures.fragments([(START, 1, 4, 2), (END, None, None, None)], most=[7, None])["data"][-1]
    assert (dashes["mode"], dashes["y"], dashes["name"]) == ("markers", [7, None], "most at a time")


def test_fragments_are_stacked_and_end_in_their_sum():
    figure = figures.fragments([(START, 1, 4, 2), (END, None, None, None)])
    assert figure["layout"]["barmode"] == "stack"
    assert [trace["y"] for trace in figure["data"]] == [[1, None], [4, None], [2, None]]
    assert figure["layout"]["annotations"][0]["text"] == "7"


def test_end_labels_do_not_stand_on_each_other():
    near = [(START, 1.0), (END, 3.05)]
    far = [(START, 1.0), (END, 1.0)]
    lines = [("a", "plot-1", ROWS), ("b", "plot-2", near), ("c", "plot-3", far)]
    labels = figures.course(lines, start=START, end=END, digits=2)["layout"]["annotations"]
    assert [label["text"] for label in labels] == ["3.00", "1.00"]
