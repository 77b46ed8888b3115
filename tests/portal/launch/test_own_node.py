"""Whether the portal's machine becomes a node: asked of the agent, which tries it."""

import os
import re
import socket
import subprocess

import pytest

from portal.foundation.errors import LaunchError
from portal.foundation.layout import Layout, write_json
from portal.launch import nodes
from portal.launch.programs import REGISTERED_FILE, node_names
from workers.system.landlock import landlock_version

CLOSED = {"files": True, "signals": True, "landlock": 7, "why": ""}
OPEN = {"files": False, "signals": False, "landlock": 0, "why": "this kernel has no Landlock"}


@pytest.fixture
def layout(tmp_path):
    layout = Layout.at(tmp_path)
    layout.prepare()
    return layout


def test_the_agent_is_asked_and_has_tried_it(layout):
    told = nodes.isolation_ask(layout)
    accounts = next(wall["by"] for wall in told["walls"] if wall["name"] == "accounts")
    assert told["files"] == (landlock_version() >= 2 if os.geteuid() else accounts == "setuid")
    assert told["landlock"] == landlock_version()
    assert list(layout.nodes.iterdir()) == []


def test_where_jobs_are_kept_out_it_is_one(layout, monkeypatch):
    monkeypatch.setattr(nodes, "isolation_ask", lambda _: CLOSED)
    assert nodes.own_node(layout, with_node=False) == nodes.OwnNode(wanted=True)


def test_where_they_are_not_it_is_none_and_the_reason_and_the_remedy_are_said(layout, monkeypatch):
    monkeypatch.setattr(nodes, "isolation_ask", lambda _: OPEN)
    decided = nodes.own_node(layout, with_node=False)
    assert not decided.wanted
    assert "this kernel has no Landlock" in decided.words
    assert "--with-node" in decided.words


@pytest.mark.parametrize("reason", ["asked", "asked before", "registered"])
def test_who_wants_it_or_has_it_keeps_it_and_is_warned(layout, monkeypatch, reason):
    monkeypatch.setattr(nodes, "isolation_ask", lambda _: OPEN)
    if reason == "asked before":
        write_json(layout.mode, {"with_node": True})
    if reason == "registered":
        (layout.nodes / socket.gethostname()).mkdir()
        (layout.nodes / socket.gethostname() / REGISTERED_FILE).write_text("{}")
    decided = nodes.own_node(layout, with_node=reason == "asked")
    assert decided.wanted
    assert "can become the operator" in decided.words


def test_an_agent_that_cannot_tell_closes_nothing(layout, monkeypatch):
    monkeypatch.setattr(nodes, "SOURCE", layout.root)  # no agent is found there
    assert nodes.isolation_ask(layout)["files"] is False


def test_what_was_decided_names_the_nodes(layout):
    write_json(layout.mode, {"node": False})
    assert node_names(layout, demo=False) == []
    assert len(node_names(layout, demo=True)) == 4
    write_json(layout.mode, {"node": True})
    assert node_names(layout, demo=False) == [socket.gethostname()]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("BERTH_AGENT_NICE", "abc", "BERTH_AGENT_NICE: 'abc' is not a whole number."),
        ("BERTH_AGENT_NICE", "20", "BERTH_AGENT_NICE: 20 is outside 0 to 19."),
        ("BERTH_AGENT_LOG_PERIOD_S", "soon", "BERTH_AGENT_LOG_PERIOD_S: 'soon' is not a number."),
        ("BERTH_AGENT_ISOLATION", "some", "BERTH_AGENT_ISOLATION: 'some' is not one of auto, off."),
    ],
)
def test_a_variable_that_no_node_here_would_start_with_is_named_before_anything_starts(
    layout, monkeypatch, name, value, words
):
    monkeypatch.setenv(name, value)
    with pytest.raises(LaunchError, match=re.escape(f"A node on this machine would not start. {words}")):
        nodes.settings_check(layout)


def test_variables_that_are_well_hold_nothing_up(layout, monkeypatch):
    nodes.settings_check(layout)
    monkeypatch.setenv("BERTH_AGENT_NICE", "7")
    nodes.settings_check(layout)
    assert list(layout.nodes.iterdir()) == []


@pytest.mark.parametrize("code", [1, None])
def test_an_agent_that_fails_otherwise_or_takes_long_holds_no_start_up(layout, monkeypatch, code):
    def ask(_layout):
        if code is None:
            raise subprocess.TimeoutExpired("agent", 30)
        return subprocess.CompletedProcess([], code, "", "no room")

    monkeypatch.setenv("BERTH_AGENT_NICE", "7")
    monkeypatch.setattr(nodes, "_agent_ask", ask)
    nodes.settings_check(layout)
