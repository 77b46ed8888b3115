import json
import re
from pathlib import Path

from portal.pages.dashboard.parts import lines

SPAN = (1000.0, 4600.0)
ROWS = [(1000.0, 1.0), (2800.0, None), (4600.0, 3.0)]
TOKENS = set(re.findall(r"--b-([a-z0-9-]+):", Path("static/css/tokens.css").read_text()))


def drawings():
    yield lines.gpu_use([(at, value, value, value) for at, value in ROWS], SPAN, now=4600.0)
    yield lines.cores(ROWS, ROWS, SPAN, now=4600.0)
    yield lines.memory(ROWS, 24.0, SPAN)
    yield lines.node_use(ROWS, "plot-1", SPAN, None)
    yield lines.node_use(ROWS, "plot-2", SPAN, "W")


def tokens(node):
    if isinstance(node, dict):
        return {found for key, value in node.items() for found in ([value] if key == "token" else tokens(value))}
    return {found for value in node for found in tokens(value)} if isinstance(node, list) else set()


def test_drawings_are_json_over_one_span_and_name_only_tokens():
    for drawing in drawings():
        json.dumps(drawing, allow_nan=False)
        assert tokens(drawing) <= TOKENS
        assert drawing["x"] == {"kind": "time", "range": [*SPAN]}


def test_a_gap_stays_a_gap_and_is_never_nought():
    assert lines.node_use(ROWS, "plot-1", SPAN, None)["lines"][0]["y"] == [1.0, None, 3.0]


def test_a_value_and_a_gap_at_one_place_are_both_kept():
    shown = lines.line("held", "text-2", [0, 60, 60, 60, 90], [4, 4, None, 6, 6])
    assert shown["y"] == [4, 4, None, 6, 6]
    assert all(one < other for one, other in zip(shown["x"], shown["x"][1:], strict=False))


def test_a_logarithmic_scale_leaves_out_what_is_not_above_zero():
    assert lines.line("a", "plot-1", [1, 2, 3], [0.0, -1.0, 9.0], logarithmic=True)["y"] == [None, None, 9.0]


def test_the_memory_limit_is_a_line_with_its_value_on_the_axis():
    drawing = lines.memory(ROWS, 24.0, SPAN)
    assert (drawing["limit"]["y"], drawing["y"]["ticks"]) == (24.0, [0, 24.0])
    assert "limit" not in lines.memory(ROWS, None, SPAN)


def test_what_is_held_is_said_at_its_line():
    assert lines.cores(ROWS, [(1000.0, 6.0), (4600.0, 6.0), (4600.0, None)], SPAN)["lines"][0]["end"] == "6 held"
