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

from tests.remains import kill_all_of, processes_of
from tests.smalldisk import small_disk
from tests.workers.conftest import AgentRunner, wait_until
from workers.agent.checks import NodeDisk
from workers.engines.process import ProcessEngine
from workers.system.files import read_json
from workers.system.procs import boot_id, boottime
from workers.system.room import FILE_BYTES, FILES, Reserve, room_keep, room_use, write_over, write_until_room

pytestmark = [pytest.mark.system, pytest.mark.slow]  # agents and jobs as processes of their own, waited for

MARK_MIB = 8
LOOP = "while :; do sleep 0.2; done"
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
    kill_all_of(runner.directory)
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


def test_jobs_that_end_without_room_are_told_of_at_once(portal, node, disk):
    """Room for it was kept: by each shim before its command began, and by the agent for the records of all."""
    keys = [portal.want(attempt=n, job=n, command=f"trap 'exit {n}' USR1; echo heeds; {LOOP}") for n in (3, 4, 5)]
    node.start(*LOW)
    pids = [portal.wait_report(key, "running")["pid"] for key in keys]
    for key in keys:  # a shell that has not yet come to its trap dies of the signal
        portal.wait_for(lambda key=key: portal.logs.get((*key, "stdout")) == b"heeds\n")
    wait_until(lambda: len(list((node.directory / "reserve").iterdir())) == FILES)
    with KeptFull(disk):
        for pid in pids:
            os.kill(pid, signal.SIGUSR1)
        for key in keys:
            ended = portal.wait_report(key, "ended")
            assert (ended["reason"], ended["exit_code"]) == ("exit", int(key[0]))
        wait_until(lambda: all(record(node, key)["phase"] == "closed" for key in keys))
        assert disk.free_mib() < 1
        assert node.process.poll() is None, "the agent lives"
    assert [r["state"] for r in portal.reports].count("ended") == len(keys)
    assert not any((node.part(key) / "result.json.kept").exists() for key in keys)
    wait_until(lambda: all(file.stat().st_size == FILE_BYTES for file in (node.directory / "reserve").iterdir()))


def record(node, key):
    return json.loads((node.part(key) / "part.json").read_text())


def test_a_job_that_fills_the_disk_with_checkpoints_is_told_of(portal, node, disk):
    """Nobody else removes them: they stay, and its end is known."""
    fill = 'cat /dev/zero > "$BERTH_CHECKPOINT_DIR/model"; exit 7'
    key = portal.want(command=fill)
    node.start(*LOW)
    ended = portal.wait_report(key, "ended")
    assert (ended["reason"], ended["exit_code"]) == ("exit", 7)
    assert disk.free_mib() < 1
    assert node.process.poll() is None


def test_an_end_waits_for_room_where_none_was_kept(portal, node, disk):
    """A shim of before an upgrade kept none."""
    key = portal.want(command="sleep 4; exit 3")
    node.start(*LOW)
    portal.wait_report(key, "running")
    (node.part(key) / "result.json.kept").unlink()
    with KeptFull(disk):
        time.sleep(8)
        assert portal.report_of(key, "ended") is None, "what is told is on disk before"
        assert node.process.poll() is None, "the agent lives"
    ended = portal.wait_report(key, "ended")
    assert (ended["reason"], ended["exit_code"]) == ("exit", 3)
    assert [r["state"] for r in portal.reports] == ["running", "ended"]
    wait_until(lambda: record(node, key)["phase"] == "closed", within_s=60)


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
            assert watched.read_room()["low"] is low, leave_mib

    def test_the_fullest_counts_and_what_is_not_there_yet_is_above(self, disk, tmp_path):
        watched = NodeDisk([tmp_path, disk.path / "not" / "yet"], mark_mib=1)
        assert watched.read_room()["total_mib"] == 32

    def test_a_mark_of_nought_is_never_low(self, disk):
        disk.fill()
        assert NodeDisk([disk.path], mark_mib=0).read_room()["low"] is False


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

    def test_into_room_that_was_kept(self, disk):
        kept, path = disk.path / "kept", disk.path / "result.json"
        assert room_keep(kept, 8192)
        disk.fill()
        assert not room_use(kept, path, b"x" * 8193)
        assert room_use(kept, path, b'{"x": 1}')
        assert (read_json(path), kept.exists(), room_use(kept, path, b"{}")) == ({"x": 1}, False, False)
        assert not room_keep(kept, 8192)

    def test_a_reserve_serves_again_and_again_and_gives_no_room_back(self, disk):
        reserve, path = Reserve(disk.path / "reserve"), disk.path / "part.json"
        path.write_text("{}")
        reserve.refill()
        assert reserve.is_whole
        with KeptFull(disk):
            free = disk.free_mib()
            for number in range(3 * FILES):
                assert reserve.replace(path, json.dumps({"number": number, "more": "y" * 1500}).encode()), number
                assert read_json(path)["number"] == number
            assert not reserve.replace(path, b"x" * (FILE_BYTES + 1))
            assert max(disk.free_mib(), free) < 0.1, "nothing was given back"
        assert not reserve.is_whole
        reserve.refill()
        assert reserve.is_whole
        assert read_json(path)["number"] == 3 * FILES - 1

    def test_a_reserve_where_nothing_is_does_nothing(self, disk):
        assert not Reserve(disk.path / "none").replace(disk.path / "part.json", b"{}")
        assert not (disk.path / "part.json").exists()

    def test_until_there_is_room(self, disk):
        disk.fill()
        threading.Timer(1.5, disk.give_back).start()
        began = time.monotonic()
        write_until_room(disk.path / "result.json", {"x": "y" * 100_000})
        assert time.monotonic() - began > 1
        assert read_json(disk.path / "result.json") == {"x": "y" * 100_000}
