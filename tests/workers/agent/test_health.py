"""What an agent finds unwell with its node, and tells: with the real pynvml over a stub of the driver's library."""

from __future__ import annotations

import asyncio
import os
import stat
import time
from types import SimpleNamespace

import httpx2
import psutil
import pytest

from portal.nodes.fields import MEASURES
from tests.native.nvml import built
from workers.agent.checks import CheckScript
from workers.agent.health import DEAF_S, HOT_LOOKS, OUTSIDE_LOOKS, SHORT_S, XID_KEPT_S, NodeHealth
from workers.portal_client import _skew_s
from workers.telemetry.beat import Beat, Readings
from workers.telemetry.sampler import GpuDetails, GpuTrouble
from workers.telemetry.simulated import SimulatedSampler
from workers.telemetry.xids import XIDS, xid_words


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return built(tmp_path_factory)


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def health():
    clock = Clock()
    made = NodeHealth(beat=Beat(SimulatedSampler([])), driver_trouble=None, is_virtual=True, now=clock)
    made.clock, made.changes = clock, 0

    def changed():
        made.changes += 1

    made.on_change = changed
    return made


def look(health, *troubles, outside=()):
    health.check_readings(Readings(details=GpuDetails(troubles=troubles), troubles=troubles), outside)
    return {(each["subject"], each["check"]): each["level"] for each in health.current()["findings"]}


def test_an_xid_that_breaks_the_gpu_fails_it_and_one_of_a_program_is_only_told(health):
    broken, program = GpuTrouble(3, "xid", "", 79), GpuTrouble(1, "xid", "", 31)
    assert look(health, broken, program) == {("gpu:3", "xid 79"): "fail", ("gpu:1", "xid 31"): "warn"}
    assert "fallen off the bus" in health.current()["findings"][0]["detail"]
    assert health.current()["findings"][0]["remedy"].startswith("Reboot")
    assert look(health) != {}, "the portal may be away when it comes"
    health.clock.now += XID_KEPT_S
    assert look(health) == {}


def test_xids_are_classed_as_nvidia_s_catalog_says(subtests):
    for code, kind in [
        (48, "reset"),
        (64, "reset"),
        (79, "reboot"),
        (95, "reset"),
        (119, "reset"),
        (54, "support"),
        (63, "watch"),
        (94, "app"),
        (13, "app"),
        (999, "app"),
    ]:
        with subtests.test(code=code, kind=kind):
            assert xid_words(code, 5)[2] == kind
            assert "-i 5" in xid_words(48, 5)[1]
            assert all(words for words, _ in XIDS.values())


def test_a_gpu_that_does_not_answer_is_failed_until_it_does(health):
    assert look(health, GpuTrouble(0, "nvml", "GPU is lost")) == {("gpu:0", "nvml"): "fail"}
    assert look(health, GpuTrouble(0, "nvml", "GPU is lost"), GpuTrouble(0, "ecc", "", 2)) == {
        ("gpu:0", "nvml"): "fail",
        ("gpu:0", "ecc"): "drain",
    }
    assert health.changes == 2, "the same again is no news"
    assert look(health) == {}


def test_heat_counts_when_it_stays(health):
    hot = GpuTrouble(0, "temperature", "Its temperature has reached 89 °C, at which it slows down.")
    for _ in range(HOT_LOOKS - 1):
        assert look(health, hot) == {}
    assert look(health) == {}
    for _ in range(HOT_LOOKS):
        found = look(health, hot)
    assert found == {("gpu:0", "temperature"): "drain"}
    assert look(health) == found, "it cools for a while before jobs come again"


def test_a_stranger_is_told_when_it_stays_and_forgotten_when_it_is_gone(health):
    stranger = {"gpu": 1, "pid": 77, "name": "python3", "memory_mib": 10.0}
    for _ in range(OUTSIDE_LOOKS - 1):
        look(health, outside=[stranger])
        assert health.current()["outside"] == []
    look(health, outside=[stranger])
    look(health, outside=[stranger | {"memory_mib": 20.0}])
    assert (health.current()["outside"], health.changes) == ([stranger], 1), "its memory alone is no news"
    look(health)
    assert health.current()["outside"] == []


@pytest.fixture
def machine():
    """The health of a real machine, whose driver last answered just now."""
    clock, beat = Clock(), Beat(SimulatedSampler([]))
    made = NodeHealth(beat=beat, driver_trouble=None, is_virtual=False, now=clock)
    made.clock, made.beat = clock, beat
    return made


def test_little_memory_counts_when_it_stays(machine, monkeypatch):
    """No test can fill a machine's memory; what the kernel says of it is stood in for."""
    total = 64 << 30
    free = SimpleNamespace(total=total, available=total // 100)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: free)
    assert look(machine) == {}
    machine.clock.now += SHORT_S - 1
    assert look(machine) == {}
    machine.clock.now += 1
    assert look(machine) == {("node", "memory"): "drain"}
    assert "1311 MiB" in machine.current()["findings"][0]["detail"]
    free.available = total // 10
    assert look(machine) == {}
    free.available = total // 100
    assert look(machine) == {}, "its time begins anew"


def test_a_driver_that_falls_silent_drains_the_node_until_it_answers(machine):
    assert look(machine) == {}
    machine.beat.answered_at = time.monotonic() - DEAF_S - 1
    assert look(machine) == {("node", "driver-hangs"): "drain"}
    machine.beat.answered_at = time.monotonic()
    assert look(machine) == {}


def test_what_was_wrong_with_the_driver_at_the_start_drains_the_node():
    made = NodeHealth(
        beat=Beat(SimulatedSampler([])), driver_trouble="Driver/library version mismatch", is_virtual=False
    )
    (found,) = made.current()["findings"]
    assert (found["subject"], found["check"], found["level"]) == ("node", "driver", "drain")
    assert found["remedy"].startswith("Install the driver's matching version")


def test_a_clock_that_differs_is_told_and_by_a_minute_drains(health):
    health.skew(3.0)
    assert look(health) == {}
    health.skew(-20.0)
    assert look(health) == {("node", "clock"): "warn"}
    health.skew(90.0)
    assert look(health) == {("node", "clock"): "drain"}
    health.skew(0.0)
    assert look(health) == {}


def test_the_skew_comes_from_the_portal_s_date_within_its_second():
    def answer(ahead_s):
        date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + ahead_s))
        return httpx2.Response(200, headers={"date": date})

    begun = time.time()  # as the call does it: the portal's second is written after
    assert _skew_s(answer(0), begun) == 0.0
    assert _skew_s(answer(-100), time.time()) == pytest.approx(99.5, abs=2)
    assert _skew_s(answer(100), time.time()) == pytest.approx(-99.5, abs=2)
    assert _skew_s(httpx2.Response(200), time.time()) is None
    assert _skew_s(httpx2.Response(200, headers={"date": "tomorrow"}), time.time()) is None


def run(check):
    asyncio.run(check.run())


def script(tmp_path, text, *, mode=0o700):
    path = tmp_path / "check"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(mode)
    return path


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("exit 0", {}),
        ("echo InfiniBand is down; exit 1", {"node": "InfiniBand is down"}),
        ("exit 3", {"node": "The check script ended with 3."}),
        ("echo; echo 'gpu:2: a bad fan'; exit 1", {"gpu:2": "a bad fan"}),
        ("sleep 600", {"node": "The check script did not end within 0.3 s."}),
        ("sleep 600 & exit 0", {}),
    ],
)
def test_an_operator_s_script_says_whether_the_node_is_well(health, tmp_path, text, found):
    run(CheckScript(script(tmp_path, text), limit_s=0.3 if text == "sleep 600" else 60.0, health=health))
    told = health.current()["findings"]
    assert {each["subject"]: each["detail"] for each in told} == found
    assert {each["level"] for each in told} <= {"drain"}


def test_a_script_that_finds_all_well_again_clears_what_it_found(health, tmp_path):
    check = CheckScript(script(tmp_path, "exit 1"), limit_s=60.0, health=health)
    run(check)
    script(tmp_path, "exit 0")
    run(check)
    assert health.current()["findings"] == []


def test_a_script_that_others_may_write_is_not_run(health, tmp_path):
    path = script(tmp_path, f"touch {tmp_path}/ran; exit 0", mode=0o722)
    run(CheckScript(path, limit_s=60.0, health=health))
    assert "others than root" in health.current()["findings"][0]["detail"]
    assert not (tmp_path / "ran").exists()
    path.chmod(stat.S_IRUSR)
    if os.geteuid() != 0:
        run(CheckScript(path, limit_s=60.0, health=health))
        assert "does not start" in health.current()["findings"][0]["detail"]


def test_every_gpu_figure_an_xid_a_lost_gpu_and_a_stranger_reach_the_portal(library, tmp_path, portal, node):
    """The whole road on the node: the library, pynvml, the heartbeat's thread, the shim's tree, the wire."""
    stub = tmp_path / "stub"
    stub.mkdir()
    portal.hello |= {"measures": {group: list(names) for group, names in MEASURES.items()}, "report_period_s": 0.2}
    key = portal.want(command="echo $$ > pid; exec sleep 600", gpus=[0], gpu_type="NVIDIA H100 80GB HBM3")
    node.start("--virtual", "", LD_LIBRARY_PATH=str(library), NVML_STUB_DIR=str(stub), NVML_STUB_PCIE="64")
    portal.wait_report(key, "running")
    pid = portal.wait_for(lambda: next((r["pid"] for r in portal.reports if r["state"] == "running"), None))
    (stub / "processes").write_text(f"0 {pid} 4096 55\n1 {os.getpid()} 100 5\n")

    def told(check):
        return lambda: next((each for each in portal.health["findings"] if each["check"] == check), None)

    of_job = {"cpu_cores", "memory_mib", "gpu_memory_mib", "gpu_utilisation"}
    if os.geteuid() == 0:  # the shim hides its disk traffic from all accounts but root
        of_job.add("read_mb_s")

    def full():
        return next((t for t in portal.telemetry if of_job <= set(t["attempts"].get("1", {}))), None)

    body = portal.wait_for(full)
    assert set(body["gpus"]["1"]) == {name for name in MEASURES["gpus"] if "." not in name}
    assert body["attempts"]["1"]["gpu_utilisation"][-1] == 55.0
    (stranger,) = portal.wait_for(lambda: portal.health["outside"])
    assert (stranger["gpu"], stranger["pid"]) == (1, os.getpid())
    (stub / "xid").write_text("1 48")
    assert portal.wait_for(told("xid 48"))["level"] == "fail"
    (stub / "lost").write_text("0")
    assert portal.wait_for(told("nvml"))["subject"] == "gpu:0"
    lost = portal.wait_for(lambda: next((t for t in portal.telemetry if set(t["gpus"]) == {"1"}), None))
    assert lost["gpus"]["1"]["temperature_c"][-1] == 61.0, "the other GPU goes on"
    portal.stop(key)


def test_a_faster_heartbeat_sends_percentiles_and_the_last_readings(library, tmp_path, portal, node):
    portal.hello |= {"measures": {group: list(names) for group, names in MEASURES.items()}, "report_period_s": 0.2}
    portal.heartbeat_s = 0.02
    node.start("--virtual", "", LD_LIBRARY_PATH=str(library))
    body = portal.wait_for(lambda: next((t for t in portal.telemetry if "last" in t), None))
    assert body["period_s"] == 1.0
    assert body["gpus"]["0"]["utilisation.p80"][-1] == body["gpus"]["0"]["utilisation.max"][-1] == 40.0
    assert body["last"]["period_s"] == 0.02
    assert set(body["last"]["gpus"]["1"]) == {"utilisation", "memory_mib", "power_w"}
