"""`./berth bench pages` and `plannings`: their keys and refusals, at a tiny size. Times are printed, never asserted."""

import json
from collections import defaultdict
from unittest import mock

import pytest

from portal.planning.rounds.planning.run import planning_run
from research import examples
from research.bench import asked, pages
from research.bench.asking import asker
from research.bench.errors import BenchError
from research.bench.pages import TARGET_KB, pages_measure, pages_report
from research.bench.plannings import plannings_measure, plannings_report

pytestmark = pytest.mark.django_db


EMPTY = (
    "overview-fragment problems",
    "overview-fragment unused",
    "home-part needs",
    "job-artefacts-fragment shown",
    "job-fragment chain",
    "job-fragment curves",
    "laboratory-turns",
)
"""Nothing is there to be shown."""


def asker_once(handler):
    """Asks for each page once, and gives that answer again: times are not looked at here."""
    ask, kept = asker(handler), {}

    def again(path, headers):
        key = (path, *headers.values())
        if key not in kept:
            kept[key] = ask(path, headers)
        return kept[key]

    return again


def test_each_page_fragment_and_list_as_tenant_and_as_operator():
    with mock.patch.object(pages, "asker", asker_once):
        figures = pages_measure(nodes=3, jobs=60, seed=1, requests=1)
    assert figures["failed"] == {}
    read = json.loads(pages_report(figures, as_json=True))["pages"]
    for name, own in read.items():
        assert own["queries"] > 0 or name == "api-docs"
        assert own["kb"] > 0 or name.startswith(EMPTY), name
        assert own["p95_ms"] > 0
        if own["most_queries"] is not None:
            assert own["queries"] <= own["most_queries"], name
            assert own["kb"] <= TARGET_KB, name
    assert {"tenant", "operator"} < set(read["overview"])
    assert {
        "overview-fragment tiles",
        "job-list page 1000",
        "api-nodes",
        "metrics",
        "admin:jobs_job_changelist",
    } <= set(read)
    assert "tenant" not in read["metrics"], "tenants are refused there"
    assert "overview" in pages_report(figures, as_json=False)
    again = pages_measure(nodes=3, jobs=60, seed=1, requests=1, only="api-node*", filled=True)
    assert set(again["pages"]) == {"api-nodes", "api-nodes 500 a page", "api-node"}
    with pytest.raises(BenchError, match="No page is named"):
        pages_measure(nodes=3, jobs=60, seed=1, requests=1, only="nothing", filled=True)


def test_an_argument_without_an_example_is_refused(monkeypatch):
    monkeypatch.delitem(examples.ARGUMENTS, "jobs/<str:number>")
    with pytest.raises(KeyError, match="number"):
        asked.asked_all(defaultdict(lambda: "1"))


def test_every_route_is_asked_for_or_left_out_with_a_reason():
    known = {route.name: route for route in examples.routes()}
    named = [*asked.MORE, *asked.OTHERS, *asked.FILES, *asked.LEFT_OUT, *examples.EXAMPLES]
    assert not set(named) - set(known), "named, but the resolver knows them no more"
    names = {each.name for each in asked.asked_all(defaultdict(lambda: "1"))}
    assert {"job-list", "job-list by start", "api-jobs", "metrics", "admin:jobs_job_changelist"} <= names
    read = {name for name, route in known.items() if asked.is_measured(route)}
    assert {name for name in read if not any(f"{each} ".startswith(f"{name} ") for each in names)} == {
        name for name in read if examples.EXAMPLES.get(name) == []
    }


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
