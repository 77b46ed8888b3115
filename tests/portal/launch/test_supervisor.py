"""The supervisor with real child processes: one that dies comes back, one that is stopped stays stopped."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
import timeit

import psutil
import pytest

from portal.foundation.errors import LaunchError
from portal.foundation.layout import read_json, write_private
from portal.launch.guarded import guarded_argv
from portal.launch.processes import identity, together
from portal.launch.processes.children import UNKNOWN_CODE, Born
from portal.launch.processes.supervisor import (
    FIRST_DELAY_S,
    LONGEST_DELAY_S,
    SETTLED_AFTER_S,
    Program,
    Supervisor,
    exit_words,
)
from portal.launch.programs import portal_environment

pytestmark = pytest.mark.impure  # processes of their own

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def told():
    return []


@pytest.fixture
def supervisor(layout, clock, told):
    supervisor = Supervisor(layout, notify=told.append, clock=clock)
    yield supervisor
    supervisor._clock = time.monotonic
    supervisor.stop({child.program.role for child in supervisor.children.values()})


def program(argv=None, **changes):
    values = {
        "name": "one",
        "role": "portal",
        "argv": argv or SLEEP,
        "environment": dict(os.environ),
        "patience_s": 5.0,
    }
    return Program(**(values | changes))


def pid_of(layout, name="one"):
    return read_json(layout.state)["children"][name]["pid"]


def until(condition, limit_s=10.0):
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def test_a_killed_child_comes_back_after_its_delay(supervisor, layout, clock, told):
    supervisor.start(program())
    first = pid_of(layout)
    os.kill(first, signal.SIGKILL)
    until(lambda: supervisor.tick() == ["one"])
    assert pid_of(layout) is None
    assert "SIGKILL" in told[0]
    supervisor.tick()
    assert pid_of(layout) is None, "it waits for its delay"
    clock.now += FIRST_DELAY_S
    supervisor.tick()
    assert pid_of(layout) not in {None, first}
    assert read_json(layout.state)["children"]["one"]["restarts"] == 1


def test_a_child_that_keeps_dying_is_started_less_and_less_often(supervisor, clock):
    supervisor.start(program([sys.executable, "-c", "raise SystemExit(3)"]))
    delays = []
    for _ in range(9):
        until(supervisor.tick)
        delays.append(supervisor.children["one"].start_again_at - clock.now)
        clock.now = supervisor.children["one"].start_again_at
        supervisor.tick()
    assert delays == [0.5, 1, 2, 4, 8, 16, LONGEST_DELAY_S, LONGEST_DELAY_S, LONGEST_DELAY_S]


def test_a_child_that_lived_long_begins_with_the_short_delay_again(supervisor, layout, clock):
    supervisor.start(program())
    supervisor.children["one"].delay_s = 16.0
    clock.now += SETTLED_AFTER_S
    os.kill(pid_of(layout), signal.SIGKILL)
    until(supervisor.tick)
    assert supervisor.children["one"].start_again_at == clock.now + FIRST_DELAY_S


def test_what_a_killed_child_leaves_in_its_group_is_ended(supervisor, layout, tmp_path):
    """Celery's pool outlives a killed main process for a while; two generations must not run side by side."""
    note = tmp_path / "grandchild"
    supervisor.start(program(["/bin/sh", "-c", f"sleep 600 & echo $! > {note}; wait"]))
    until(lambda: note.exists() and note.read_text().strip())
    grandchild = identity.identity_of(int(note.read_text()))
    os.kill(pid_of(layout), signal.SIGKILL)
    until(supervisor.tick)
    until(lambda: not identity.is_alive(grandchild))


def test_what_an_agent_leaves_runs_on(supervisor, layout, tmp_path):
    note = tmp_path / "shim"
    argv = ["/bin/sh", "-c", f"sleep 600 & echo $! > {note}; wait"]
    supervisor.start(program(argv, role="agent", spares_group=True))
    until(lambda: note.exists() and note.read_text().strip())
    shim = identity.identity_of(int(note.read_text()))
    os.kill(pid_of(layout), signal.SIGKILL)
    until(supervisor.tick)
    try:
        time.sleep(0.2)
        assert identity.is_alive(shim)
    finally:
        os.kill(shim.pid, signal.SIGKILL)


def test_stop_kills_what_ignores_sigterm(supervisor, layout, told, tmp_path):
    ready = tmp_path / "ready"
    script = f"import signal, time, pathlib; signal.signal(15, signal.SIG_IGN); pathlib.Path({str(ready)!r}).touch(); time.sleep(600)"
    supervisor._clock = time.monotonic
    supervisor.start(program([sys.executable, "-c", script], patience_s=0.5))
    until(ready.exists)
    stubborn = identity.identity_of(pid_of(layout))
    supervisor.stop(["portal"])
    assert not identity.is_alive(stubborn)
    assert any("did not stop" in line for line in told)
    assert read_json(layout.state)["children"] == {}


def test_a_stopped_child_is_not_started_again(supervisor, layout, clock):
    supervisor.start(program())
    supervisor._clock = time.monotonic
    supervisor.stop(["portal"])
    supervisor._clock = clock
    clock.now += 100
    assert supervisor.tick() == []
    assert read_json(layout.state)["children"] == {}


def test_logs_above_the_limit_are_turned_over_while_their_writer_lives(supervisor, layout, clock, monkeypatch):
    monkeypatch.setattr("portal.launch.processes.supervisor.LOG_LIMIT_BYTES", 100)
    os.mkfifo(layout.run / "go")
    supervisor.start(program(["/bin/sh", "-c", f"printf '%0200d' 0; read _ < {layout.run}/go; echo after; sleep 600"]))
    log = layout.logs / "one.log"
    until(lambda: log.stat().st_size == 200)
    clock.now += 61
    supervisor.tick()
    assert log.stat().st_size == 0
    assert (layout.logs / "one.log.1").stat().st_size == 200
    (layout.run / "go").write_text("x\n")
    until(lambda: log.read_bytes() == b"after\n")
    assert log.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(("code", "words"), [(3, "exit code 3"), (-9, "signal SIGKILL"), (-63, "signal 63")])
def test_exit_words(code, words):
    assert exit_words(code) == words


def test_what_somebody_closed_is_opened_again(layout):
    layout.database.write_text("")
    for path in (layout.database, layout.run, layout.root):
        path.chmod(0)
    assert layout.put_right() == [layout.root, layout.database, layout.run]
    assert [stat.S_IMODE(path.stat().st_mode) for path in (layout.root, layout.run, layout.database)] == [
        0o700,
        0o700,
        0o600,
    ]
    assert layout.put_right() == []


# ---- services that are started together ------------------------------------------------------------------------------

TELL = """
import ctypes, json, os, sys, threading, time
from channels.layers import channel_layers
from django.db import connections
from portal.foundation import alive
alive.sign()
files = {name: os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}")}
told = {"session": os.getsid(0) == os.getpid(), "niceness": os.nice(0), "threads": threading.active_count()}
told |= {"dumpable": ctypes.CDLL(None).prctl(3), "name": open("/proc/self/comm").read().strip(), "files": files}
told |= {"loaded": "portal.asgi" in sys.modules, "layers": len(channel_layers.backends), "argv": sys.argv[0]}
told |= {"connections": [each.alias for each in connections.all() if each.connection is not None]}
print(json.dumps(told), flush=True)
time.sleep(600)
"""


@pytest.fixture
def start_together(supervisor, layout, clock):
    """Starts two services that tell of themselves in their logs; `timeit` stands in for servers."""
    environment = portal_environment(layout, redis_url="redis://127.0.0.1:1", demo=False)
    argv = guarded_argv(str(layout.root), "timeit", "-n", "1", "-r", "1", TELL)

    def start(between=lambda: time.sleep(0.05)):
        both = [
            program(argv, name="one", environment=environment, signs=True),
            program(["nice", "-n", "5", *argv], name="two", environment=environment),
        ]
        supervisor.start_together(both, between=between)

    yield start
    identity.end(identity.leftovers(layout), patience_s=0.0)


def told_by(layout, name):
    log = layout.logs / f"{name}.log"
    until(lambda: log.exists() and log.read_text().endswith("}\n"), limit_s=60)
    return json.loads(log.read_text().splitlines()[-1])


@pytest.mark.skipif(sys.platform != "linux", reason="there are no subreapers elsewhere")
def test_a_child_that_somebody_else_has_waited_for_has_ended():
    done = subprocess.Popen(["true"])
    done.wait()
    assert Born(done.pid).poll() == UNKNOWN_CODE


def test_services_that_start_together_are_each_a_process_of_ours_that_has_loaded_all(
    supervisor, layout, told, start_together
):
    write_private(layout.secret_key, "k" * 30 + "ey of the tests, 0123456789 abcdefg")
    start_together()
    for name, more in (("one", 0), ("two", 5)):
        assert psutil.Process(pid_of(layout, name)).ppid() == os.getpid()
        found = told_by(layout, name)
        files = found.pop("files")
        assert found == {
            "session": True,
            "niceness": os.nice(0) + more,
            "threads": 1,
            "dumpable": 0,
            "name": f"berth-{name}",
            "loaded": True,
            "layers": 0,
            "argv": timeit.__file__,
            "connections": [],
        }
        log = str(layout.logs / f"{name}.log")
        assert [files[number] for number in "012"] == ["/dev/null", log, log]
        assert len(files) == (4 if name == "one" else 3), "and its signs"
    first = supervisor.children["one"]
    until(lambda: first.read_signs(1.0) or first.process.pid in first.signs)  # it signs into its pipe
    assert told == []
    pid = pid_of(layout)
    os.kill(pid, signal.SIGKILL)
    until(lambda: supervisor.tick() == ["one"])
    assert told == ["one ended (signal SIGKILL); starting it again in 0.5 s"]
    assert not psutil.pid_exists(pid)


@pytest.mark.skipif(sys.platform != "linux", reason="there are no subreapers elsewhere")
def test_where_they_cannot_start_together_each_starts_by_itself(supervisor, layout, start_together):
    start_together()
    assert "The signing key" in (layout.logs / "nursery.log").read_text()
    assert {told_by(layout, name)["name"] for name in ("one", "two")} == {"python"}


@pytest.mark.skipif(sys.platform != "linux", reason="there are no subreapers elsewhere")
def test_a_stop_while_they_load_leaves_none(supervisor, layout, start_together):
    write_private(layout.secret_key, "k" * 30 + "ey of the tests, 0123456789 abcdefg")

    def stop():
        raise StopIteration

    with pytest.raises(StopIteration):
        start_together(stop)
    assert identity.leftovers(layout) == []
    assert supervisor.children == {}


@pytest.mark.skipif(sys.platform != "linux", reason="there are no subreapers elsewhere")
def test_where_it_is_not_told_who_was_started_all_stops(supervisor, layout, start_together, monkeypatch):
    monkeypatch.setattr(together, "NURSERY", "tests.portal.launch.stuck_nursery")
    monkeypatch.setattr(together, "LIMIT_S", 3.0)
    with pytest.raises(LaunchError, match="did not start within 3 s"):
        start_together()
    assert identity.leftovers(layout) == []
    assert supervisor.children == {}
