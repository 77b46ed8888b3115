"""The process behind a pid, the holder of the lock, and the remains of a killed supervisor."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from portal.foundation.alive import MARK
from portal.foundation.command_errors import LaunchError
from portal.foundation.layout import SOURCE, Layout, read_json, write_json
from portal.launch import broker
from portal.launch.processes import identity
from portal.launch.processes.lock import SupervisorLock, lock_or_refuse, supervisor_state

pytestmark = pytest.mark.impure  # processes of their own


@pytest.fixture
def spawn():
    processes = []

    def start(*argv, **environment):
        process = subprocess.Popen(argv, env=os.environ | environment)
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.wait()


def sleeper(spawn, *more, **environment):
    return spawn(sys.executable, "-c", "import time; time.sleep(600)", *more, **environment)


def test_a_reused_pid_is_another_process(spawn):
    process = sleeper(spawn)
    known = identity.identity_of(process.pid)
    assert identity.is_alive(known)
    assert not identity.is_alive(replace(known, started=known.started - 1))
    assert not identity.is_alive(replace(known, boot_id="another boot"))


def test_a_dead_process_is_not_alive_even_before_it_is_reaped(spawn):
    process = sleeper(spawn)
    known = identity.identity_of(process.pid)
    process.kill()
    deadline = time.monotonic() + 5
    while identity.is_alive(known):
        assert time.monotonic() < deadline
    assert process.poll() is not None


def test_only_one_holds_the_lock(layout):
    with lock_or_refuse(layout) as lock:
        assert str(os.getpid()) in layout.lock.read_text()
        write_json(layout.state, {"url": "http://127.0.0.1:1234"})
        with pytest.raises(LaunchError, match=r"already runs .*http://127\.0\.0\.1:1234.*berth down"):
            lock_or_refuse(layout)
        lock.release()
        assert SupervisorLock(layout.lock).acquire()


def test_the_lock_falls_when_its_holder_is_killed(layout, spawn):
    code = (
        "import sys, time; from portal.foundation.layout import Layout; from portal.launch.processes.lock import lock_or_refuse\n"
        f"lock = lock_or_refuse(Layout.at({str(layout.root)!r})); time.sleep(600)"
    )
    holder = spawn(sys.executable, "-c", code, PYTHONPATH=str(SOURCE))
    deadline = time.monotonic() + 20
    while not (layout.lock.exists() and layout.lock.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert not SupervisorLock(layout.lock).acquire()
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert SupervisorLock(layout.lock).acquire()


def test_the_state_of_a_dead_supervisor_counts_for_nothing(layout, spawn):
    process = sleeper(spawn)
    write_json(layout.state, {"supervisor": identity.identity_of(process.pid).as_dict(), "children": {}})
    assert supervisor_state(layout) is not None
    process.kill()
    process.wait()
    assert read_json(layout.state) is not None
    assert supervisor_state(layout) is None


def test_leftovers_are_services_and_agents_of_this_directory_alone(layout, spawn, tmp_path):
    ours = sleeper(spawn, **{MARK: str(layout.root)})
    (tmp_path / "workers").mkdir()
    (tmp_path / "workers" / "agent.py").write_text("import time; time.sleep(600)")
    argv = [sys.executable, "-m", "workers.agent", "--dir", str(layout.nodes / "n1")]
    agent = spawn(*argv, PYTHONPATH=str(tmp_path), PYTHONSAFEPATH="1")
    sleeper(spawn, **{MARK: "/somewhere/else"})
    sleeper(spawn)
    deadline = time.monotonic() + 10
    while {p.pid for p in identity.leftovers(layout)} != {ours.pid, agent.pid}:
        assert time.monotonic() < deadline, identity.leftovers(layout)
        time.sleep(0.05)
    identity.end(identity.leftovers(layout), patience_s=5)
    assert identity.leftovers(layout) == []
    assert ours.poll() is not None
    assert agent.poll() is not None


def test_an_embedded_broker_is_a_leftover_though_it_wipes_its_environment(layout, spawn, tmp_path):
    other = Layout.at(tmp_path / "other")
    other.prepare()
    servers = {each: broker.server_configure(each) for each in (layout, other)}
    started = {each: spawn(*server.argv, **{MARK: str(each.root)}) for each, server in servers.items()}
    for server in servers.values():
        broker.wait_until_up(server.url)
    assert [p.pid for p in identity.leftovers(layout)] == [started[layout].pid]
    identity.end(identity.leftovers(layout), patience_s=5)
    assert started[layout].poll() is not None
    assert started[other].poll() is None


@pytest.mark.parametrize(
    ("argv", "is_agent"),
    [
        (["python", "-m", "workers.agent", "--dir", "{nodes}/n1"], True),
        (["python", "-m", "workers.agent", "--url", "x", "--dir", "{nodes}/n1", "--name", "n1"], True),
        (["python", "-m", "workers.agent", "--dir", "/elsewhere/n1"], False),
        (["python", "-m", "workers.shim", "--dir", "{nodes}/n1"], False),
        (["python", "-m", "workers.agent", "--dir"], False),
        (["python", "-m", "workers.nursery", "{nodes}", "n1=workers.agent", "n2=workers.agent"], True),
        (["python", "-m", "workers.nursery", "/elsewhere", "n1=workers.agent", "n2=workers.agent"], False),
        (["python", "-m", "workers.nursery"], False),
    ],
)
def test_what_is_an_agent_of_ours(layout, argv, is_agent):
    assert identity._is_agent([part.format(nodes=layout.nodes) for part in argv], layout) is is_agent
