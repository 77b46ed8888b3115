"""The words of `./berth up`, `down` and `status`: their help, and the figures of a Berth that runs."""

import pytest

from portal.launch.__main__ import main
from portal.launch.broker import free_port
from portal.launch.control import health_lines
from portal.launch.health import health_ask

FIGURES = {
    "state": "ok",
    "database": "ok",
    "broker": "ok",
    "disk": {"free_mib": 78754, "total_mib": 258019, "mark_mib": 200, "low": False},
    "beat_age_s": 1.1,
    "last_planning_age_s": None,
    "nodes": 3,
    "nodes_in_contact": 4,
    "nodes_registered": 4,
}


@pytest.mark.parametrize("verb", ["up", "down", "status", "backup", "restore"])
def test_help_begins_with_a_sentence(verb, capsys):
    with pytest.raises(SystemExit):
        main([verb, "--help"])
    usage, about = capsys.readouterr().out.split("\n\n")[:2]
    assert usage.startswith("usage: ./berth")
    assert about.endswith("."), about
    assert len(about.split()) > 4


def test_a_portal_that_is_away_is_told_without_numbers_of_the_kernel():
    asked = health_ask(host="127.0.0.1", port=free_port(), tls=False)
    assert asked.words.startswith("the portal does not answer (connection refused); ")
    assert "logs/portal.log" in asked.words


def test_figures_are_told_in_words():
    assert health_lines(FIGURES) == [
        "state: ok",
        "database: ok",
        "broker: ok",
        "disk: 76.9 of 252.0 GiB free",
        "the clock's last task: 1.1 s ago",
        "the last planning: none yet",
        "nodes: 3 of 4 take jobs, 4 are in contact",
    ]
