"""The supervisor on a disk without any room: it goes on, and writes again by itself when there is some."""

import os
import signal
import sys

import pytest

from portal.foundation.errors import LaunchError
from portal.foundation.layout import Layout, read_json
from portal.launch.notices import Notices
from portal.launch.options import Options
from portal.launch.processes.supervisor import STATE_RETRY_S, Supervisor
from portal.launch.up import Launch
from tests.portal.launch.test_supervisor import Clock, pid_of, program, until
from tests.smalldisk import small_disk


@pytest.fixture
def disk():
    with small_disk(8) as disk:
        yield disk


@pytest.fixture
def layout(disk):
    layout = Layout.at(disk.path / "data")
    layout.prepare()
    return layout


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def supervisor(layout, clock):
    notices = Notices(layout.logs / "supervisor.log")
    supervisor = Supervisor(layout, notify=notices.step, clock=clock)
    yield supervisor
    for child in supervisor.children.values():
        child.signal(signal.SIGKILL)
    supervisor.stop({child.program.role for child in supervisor.children.values()})


def test_it_outlives_a_full_disk_and_tells_the_truth_when_there_is_room(supervisor, layout, clock, disk):
    supervisor.start(program())
    first = pid_of(layout)
    disk.fill()
    os.kill(first, signal.SIGKILL)
    until(lambda: supervisor.tick() == ["one"])
    clock.now += 1
    supervisor.tick()
    second = supervisor.children["one"].process.pid
    assert second != first, "it was started again, without a line in a log or in the state"
    assert pid_of(layout) == first, "the state is the old one, and whole"
    supervisor.start(program(name="two"))  # its log cannot even be made
    clock.now += STATE_RETRY_S
    supervisor.tick()
    disk.give_back()
    clock.now += STATE_RETRY_S
    supervisor.tick()
    assert pid_of(layout) == second
    assert pid_of(layout, "two")
    assert [path.name for path in layout.run.iterdir() if path.name.startswith(".state")] == []


def test_a_log_that_fills_the_disk_is_emptied_without_a_copy(supervisor, layout, clock, disk, monkeypatch):
    monkeypatch.setattr("portal.launch.processes.supervisor.LOG_LIMIT_BYTES", 2**20)
    log = layout.logs / "portal.log"
    log.write_bytes(b"x" * (6 * 2**20))
    disk.fill()
    clock.now += 61
    supervisor.tick()
    assert log.stat().st_size == 0
    assert not (layout.logs / "portal.log.1").exists()
    assert disk.free_mib() > 5


def test_what_cannot_be_started_is_tried_again(supervisor, clock, tmp_path):
    missing = tmp_path / "comes-later"
    supervisor.start(program([str(missing)]))
    assert supervisor.children["one"].process is None
    missing.symlink_to(sys.executable)
    clock.now += 1
    supervisor.tick()
    assert supervisor.children["one"].process is not None


def test_only_a_first_start_needs_the_first_starts_room(layout, disk):
    disk.fill(leave_mib=4)
    with pytest.raises(LaunchError, match=r"Only \d MiB are free .* for its first start"):
        Launch(Options(data=layout.root))._check_disk()
    layout.mode.write_text("{}")
    Launch(Options(data=layout.root))._check_disk()
    assert "MiB are free on the disk" in (layout.logs / "supervisor.log").read_text()
    assert read_json(layout.mode) == {}
