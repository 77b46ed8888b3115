"""An agent, its shims and their jobs on a disk that fills and is given room again: nothing dies, nothing is lost."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
import time

import pytest

from tests.smalldisk import small_disk
from tests.workers.conftest import AgentRunner, processes_of, wait_until
from workers.agent.disk import NodeDisk
from workers.engines.process import ProcessEngine
from workers.system.files import read_json
from workers.system.procs import boot_id, boottime
from workers.system.room import write_over, write_until_room

pytestmark = pytest.mark.system  # agents and jobs as processes of their own, waited for

MARK_MIB = 8
LOW = ("--disk-low-mib", str(MARK_MIB))


@pytest.fixture
def disk():
    with small_disk(32) as disk:
        yield disk


@pytest.fixture
def node(disk, portal, tmp_path):
    runner = AgentRunner(disk.path / "node", portal.url)
    runner.directory.mkdir()
    runner.log = tmp_path / "agent.log"
    yield runner
    disk.give_back()
    if runner.process and runner.process.poll() is None:
        runner.kill()
    for pid, _ in processes_of(runner.directory):
        os.kill(pid, signal.SIGKILL)
    sys.stderr.write(runner.log.read_text())


class KeptFull:
    """Fills the disk again and again, as something that writes without end does, until the block is left."""

    def __init__(self, disk):
        self.disk, self.over = disk, threading.Event()

    def __enter__(self):
        self.disk.fill()
        self.thread = threading.Thread(target=self._keep)
        self.thread.start()

    def _keep(self):
        while not self.over.wait(0.2):
            self.disk.fill()

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        self.disk.give_back()


def test_a_job_that_ends_without_room_is_told_of_when_there_is_some(portal, node, disk):
    key = portal.want(command="sleep 4; exit 3")
    node.start(*LOW)
    portal.wait_report(key, "running")
    with KeptFull(disk):
        time.sleep(8)
        assert portal.report_of(key, "ended") is None, "what is told is on disk before"
        assert node.process.poll() is None, "the agent lives"
    ended = portal.wait_report(key, "ended")
    assert (ended["reason"], ended["exit_code"]) == ("exit", 3)
    assert [r["state"] for r in portal.reports] == ["running", "ended"]
    wait_until(lambda: json.loads((node.part(key) / "part.json").read_text())["phase"] == "closed", within_s=60)


def test_an_agent_that_is_killed_and_started_without_room_finds_its_jobs(portal, node, disk):
    key = portal.want(command="echo $$; sleep 12")
    node.start(*LOW)
    pid = portal.wait_report(key, "running")["pid"]
    with KeptFull(disk):
        node.kill()
        node.start(*LOW)
        time.sleep(8)
        assert node.process.poll() is None, "it serves on a full disk"
    ended = portal.wait_report(key, "ended")
    assert (ended["pid"], ended["reason"], ended["exit_code"]) == (pid, "exit", 0)


def test_a_job_that_is_wanted_without_room_starts_when_there_is_some(portal, node, disk):
    node.start(*LOW)
    portal.wait_for(lambda: portal.disk)
    with KeptFull(disk):
        key = portal.want(command="echo ran", files={"data": "eA=="})
        time.sleep(6)
        assert portal.report_of(key, "ended") is None, "it is no fault of the job's"
        assert node.process.poll() is None
    assert portal.wait_report(key, "ended")["exit_code"] == 0


def test_leases_are_renewed_without_room(portal, node, disk):
    """A job that may be run elsewhere ends when its lease does; a full disk alone does not end it."""
    portal.hello["lease_s"] = 5
    key = portal.want(command="sleep 14", lease=True)
    node.start(*LOW)
    portal.wait_report(key, "running")
    with KeptFull(disk):
        time.sleep(12)
    ended = portal.wait_report(key, "ended")
    assert (ended["reason"], ended["exit_code"]) == ("exit", 0)


def test_a_job_is_stopped_without_room(portal, node, disk):
    key = portal.want(command="sleep 600")
    node.start(*LOW)
    portal.wait_report(key, "running")
    with KeptFull(disk):
        portal.stop(key, grace_s=1)
        wait_until(lambda: not any("sleep 600" in line for _, line in processes_of(node.part(key))), within_s=60)
        assert node.process.poll() is None
    assert portal.wait_report(key, "ended")["reason"] == "stopped"


def test_what_ended_jobs_left_goes_when_room_is_short(portal, node, disk):
    key = portal.want(command="dd if=/dev/zero of=big bs=1M count=12 2>/dev/null")
    node.start(*LOW)
    portal.wait_report(key, "ended")
    before = disk.free_mib()
    disk.fill(leave_mib=MARK_MIB - 2)
    disk.ballast.rename(disk.path / "other")
    wait_until(lambda: disk.free_mib() > 12, within_s=60)
    assert before < 32
    portal.wait_for(lambda: not portal.disk["low"])


def test_low_and_again_enough_room_is_told_with_figures(portal, node, disk):
    node.start(*LOW)
    portal.wait_for(lambda: portal.disk and not portal.disk["low"])
    disk.fill(leave_mib=4)
    told = portal.wait_for(lambda: portal.disk["low"] and portal.disk)
    assert (told["total_mib"], told["free_mib"] <= 4) == (32, True)
    disk.give_back()
    portal.wait_for(lambda: not portal.disk["low"])


class TestNodeDisk:
    def test_a_fifth_more_than_the_mark_ends_it(self, disk):
        watched = NodeDisk([disk.path], mark_mib=10)
        for leave_mib, low in ((11, False), (9, True), (11, True), (13, False)):
            disk.give_back()
            disk.fill(leave_mib=leave_mib)
            assert watched.look()["low"] is low, leave_mib

    def test_the_fullest_counts_and_what_is_not_there_yet_is_above(self, disk, tmp_path):
        watched = NodeDisk([tmp_path, disk.path / "not" / "yet"], mark_mib=1)
        assert watched.look()["total_mib"] == 32

    def test_a_mark_of_nought_is_never_low(self, disk):
        disk.fill()
        assert NodeDisk([disk.path], mark_mib=0).look()["low"] is False


class TestRoom:
    def test_over_what_is_there(self, disk):
        path = disk.path / "lease.json"
        engine = ProcessEngine()
        engine.lease(disk.path, until=boottime() + 5)
        disk.fill()
        shutil.rmtree(disk.path / "none", ignore_errors=True)
        until = boottime() + 1e6
        engine.lease(disk.path, until=until)
        found = read_json(path)
        assert (round(found["until"], 3), found["boot_id"]) == (round(until, 3), boot_id())

    def test_never_over_something_of_another_length(self, disk):
        path = disk.path / "file"
        path.write_bytes(b"12345")
        disk.fill()
        with pytest.raises(OSError, match="No space"):
            write_over(path, b"123456")
        assert path.read_bytes() == b"12345"

    def test_until_there_is_room(self, disk):
        disk.fill()
        threading.Timer(1.5, disk.give_back).start()
        began = time.monotonic()
        write_until_room(disk.path / "result.json", {"x": "y" * 100_000})
        assert time.monotonic() - began > 1
        assert read_json(disk.path / "result.json") == {"x": "y" * 100_000}
