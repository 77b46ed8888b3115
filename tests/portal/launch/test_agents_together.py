"""The supervisor starts several agents as forks of one process that has loaded what they work with."""

import os
import signal
import sys
import time

import psutil
import pytest

from portal.foundation.layout import read_json
from portal.launch.processes import identity, together
from portal.launch.processes.supervisor import Program, Supervisor
from portal.launch.programs import agent_environment

pytestmark = [
    pytest.mark.impure,  # processes of their own
    pytest.mark.skipif(sys.platform != "linux", reason="there are no subreapers elsewhere"),
]

NOBODY = "http://127.0.0.1:1"
"""Where no portal listens: an agent with a token asks there for ever, one without ends at once."""


@pytest.fixture
def told():
    return []


@pytest.fixture
def supervisor(layout, told):
    supervisor = Supervisor(layout, notify=told.append)
    yield supervisor
    supervisor.stop(["agent"])
    assert identity.leftovers(layout) == []


def agent(layout, name, token="a-token"):
    argv = [sys.executable, "-m", "workers.agent", "--url", NOBODY, "--dir", str(layout.nodes / name), "--name", name]
    virtual = "gpus=1,type=A,gpu-memory-mib=1024,cores=1,memory-mib=1024"
    argv += ["--virtual", virtual, "--closed", str(layout.root)]
    return Program(name, "agent", argv, agent_environment(token), spares_group=True, signs=True)


def until(condition, limit_s=30.0):
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def process_of(layout, name):
    return psutil.Process(read_json(layout.state)["children"][name]["pid"])


def said(layout, name, words):
    log = layout.logs / f"{name}.log"
    return log.exists() and words in log.read_text()


def start(supervisor, *programs):
    supervisor.start_together(programs, between=lambda: time.sleep(0.05))


def test_agents_that_start_together_are_each_a_process_of_ours(supervisor, layout, told):
    start(supervisor, agent(layout, "n1"), agent(layout, "n2-with-a-long-name", None))
    n1, n2 = (process_of(layout, name) for name in ("n1", "n2-with-a-long-name"))
    assert [each.ppid() for each in (n1, n2)] == [os.getpid()] * 2
    assert [each.name() for each in (n1, n2)] == ["berth-n1", "berth-n2-with-a"]
    assert os.getsid(n1.pid) == n1.pid
    assert {each.pid for each in identity.leftovers(layout)} >= {n1.pid}
    until(lambda: said(layout, "n1", "portal away"))
    child = supervisor.children["n1"]
    until(lambda: child.read_signs(1.0) or n1.pid in child.signs)  # it signs into its pipe
    until(lambda: supervisor.tick() == ["n2-with-a-long-name"])
    assert said(layout, "n2-with-a-long-name", "this node has no token yet"), "the token of one is not the other's"
    assert told == ["n2-with-a-long-name ended (exit code 2); starting it again in 0.5 s"]


def test_a_killed_one_is_started_again_by_its_own_command_line(supervisor, layout):
    start(supervisor, agent(layout, "n1"), agent(layout, "n2"))
    first, other = process_of(layout, "n1"), process_of(layout, "n2")
    first.send_signal(signal.SIGKILL)
    until(lambda: supervisor.tick() == ["n1"])
    until(lambda: supervisor.tick() == [] and supervisor.children["n1"].process is not None)
    until(lambda: "workers.agent" in process_of(layout, "n1").cmdline())
    assert other.is_running()
    assert {each.pid for each in identity.leftovers(layout)} == {other.pid, process_of(layout, "n1").pid}


def test_one_alone_is_no_fork(supervisor, layout):
    start(supervisor, agent(layout, "n1"))
    until(lambda: said(layout, "n1", "portal away"))
    assert process_of(layout, "n1").cmdline()[1:3] == ["-m", "workers.agent"]


def test_where_they_cannot_start_together_each_starts_by_itself(supervisor, layout, monkeypatch):
    monkeypatch.setattr(together, "AGENTS", "workers.no_such_module")
    start(supervisor, agent(layout, "n1"), agent(layout, "n2"))
    assert "workers.no_such_module" in (layout.logs / "nursery.log").read_text()
    for name in ("n1", "n2"):
        until(lambda name=name: said(layout, name, "portal away"))
        assert process_of(layout, name).cmdline()[1:3] == ["-m", "workers.agent"]
