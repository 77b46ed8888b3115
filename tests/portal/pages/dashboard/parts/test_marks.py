import re
from xml.etree import ElementTree as ET

import pytest

from portal.pages.dashboard.parts import marks
from tests.portal.pages.dashboard.job_samples import job


def attributes(svg, selector):
    return [node.attrib for node in ET.fromstring(svg).iter() if node.attrib.get("class") == selector]


def test_bar_is_clamped_and_ticked():
    svg = marks.bar(30, 24, "held", tick=6)
    assert attributes(svg, "b-bar-fill")[0]["width"] == "100.00%"
    assert attributes(svg, "b-bar-tick")[0]["x"] == "25.00%"
    assert attributes(marks.bar(None, 24, "held"), "b-bar-fill")[0]["width"] == "0.00%"
    assert attributes(marks.bar(1, 0, "held"), "b-bar-fill")[0]["width"] == "0.00%"


def test_stacked_parts_stand_end_to_end():
    svg = marks.stacked([("done", 3), ("run", 0), ("wait", 1)], None, "3 done, 1 waits")
    assert attributes(svg, "b-fill-run") == []
    assert attributes(svg, "b-fill-done")[0]["width"] == "74.40%"
    assert attributes(svg, "b-fill-wait")[0] | {"class": ""} == {"class": "", "x": "75.00%", "width": "25.00%"}
    assert attributes(marks.stacked([("done", 3)], 4, "3 of 4"), "b-fill-done")[0]["width"] == "74.40%"


def test_sparkline_leaves_a_gap_where_there_is_no_value():
    svg = marks.sparkline({"values": [1.0, 2.0, None, 1.0, 2.0], "high": 2, "tone": "accent"}, "x")
    assert attributes(svg, "b-spark-line")[0]["d"].count("M") == 2
    assert attributes(svg, "b-spark-area")[0]["d"].count("Z") == 2


@pytest.mark.parametrize("values", [[], [None, None], [5.0]])
def test_sparkline_of_hardly_anything(values):
    ET.fromstring(marks.sparkline({"values": values, "high": 0, "tone": "wait"}, "x"))


def test_shared_scale_keeps_a_calm_line_low():
    low = marks.sparkline({"values": [0.1, 0.1], "high": 1.0, "tone": "accent"}, "x")
    y = float(re.search(r"M[\d.]+ ([\d.]+)", attributes(low, "b-spark-line")[0]["d"])[1])
    assert y == pytest.approx(31 - 2.9)


def test_timeline_height_is_gpus_and_an_open_span_ends_now():
    context = job()["timeline"]
    svg = marks.timeline(context)
    heights = [float(each["height"]) for each in attributes(svg, "b-span-running")]
    assert heights == [21.0, 42.0, 21.0]
    last = attributes(svg, "b-span-waiting")[-1]
    now = attributes(svg, "b-timeline-now")[0]["x1"]
    assert float(last["x"][:-1]) + float(last["width"][:-1]) == pytest.approx(float(now[:-1]), abs=0.02)


def test_the_word_now_stands_over_its_line_where_no_bar_and_no_edge_cuts_it():
    """Beside the line it ran out of the card at 390 px; 20 px are right of the plot, and half of the word is 11."""
    svg = marks.timeline(job()["timeline"])
    line = attributes(svg, "b-timeline-now")[0]
    word = re.search(r'<text class="b-span-caption" x="([^"]+)" y="(\d+)" text-anchor="(\w+)">now<', svg)
    assert word.groups() == (line["x1"], "0", "middle")
    assert all(float(bar["y"]) > 3 for bar in attributes(svg, "b-span-running"))


def test_timeline_escapes_what_a_tenant_wrote():
    context = job()["timeline"]
    context["spans"][1]["caption"] = "<script>alert(1)</script>"
    assert "<script" not in marks.timeline(context)


def test_a_caption_that_would_run_into_the_next_bars_is_left_to_the_title():
    """Seen: "A100 80 GB, a100-02" of a short profile, written over "attempt 1, a100-02"."""
    context = job()["timeline"]
    short, long = (
        {"kind": "profiling", "gpus": 0, "label": "profile", "caption": "A100 80 GB, a100-02"} | times
        for times in (
            {"from_at": "2026-01-01T00:00:00+00:00", "to_at": "2026-01-01T00:00:08+00:00"},
            {"from_at": "2026-01-01T00:00:08+00:00", "to_at": "2026-01-01T00:01:40+00:00"},
        )
    )
    axis = {"start": "2026-01-01T00:00:00+00:00", "end": "2026-01-01T00:01:40+00:00", "now": None}
    svg = marks.timeline(context | axis | {"spans": [short, long]})
    assert svg.count(">A100 80 GB, a100-02</text>") == 1
    assert svg.count("profile, A100 80 GB, a100-02</title>") == 2
