"""`./berth bench pages` and `plannings`: their keys and refusals, at a tiny size. Times are printed, never asserted."""

import json

import pytest

from portal.bench.errors import BenchError
from portal.bench.pages import PAGES, pages_measure, pages_report
from portal.bench.plannings import plannings_measure, plannings_report
from portal.rounds.planning import planning_run

pytestmark = pytest.mark.django_db


def test_each_page_as_operator_and_member():
    figures = pages_measure(gpus=16, jobs=60, seed=1, requests=2)
    read = json.loads(pages_report(figures, as_json=True))
    for cast in ("operator", "member"):
        assert set(read[cast]) == {name for name, _, _ in PAGES}
        assert all(own["queries"] > 3 and own["bytes"] > 1000 for own in read[cast].values())
    assert "overview" in pages_report(figures, as_json=False)


def test_the_plannings_that_were_made(cluster):
    with pytest.raises(BenchError, match="no applied planning"):
        plannings_measure(last=5)
    cluster.submit(cores_per_gpu=1)
    for _ in range(3):
        planning_run()
    figures = plannings_measure(last=2)
    assert (figures["plannings"], figures["placed"]) == (2, 0)
    assert plannings_measure(last=3)["placed"] == 1
    assert figures["total_s"]["max"] >= figures["total_s"]["p50"] > figures["load_s"]["p50"] > 0
    assert "target" in plannings_report(figures, as_json=False)
    with pytest.raises(BenchError, match="at least 1"):
        plannings_measure(last=0)
