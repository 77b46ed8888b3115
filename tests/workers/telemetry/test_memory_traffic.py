"""Meters of memory traffic: resctrl in a tree as the kernel shows it, and the probe."""

import json

import pytest

from tests.workers.settings import settings_from
from workers.agent.sources import memory_find
from workers.telemetry.sampler import PartUse
from workers.telemetry.traffic import ProbeMeter, ResctrlMeter, capacity_measure, machine_bytes

USE = PartUse((), 1.0, 0.0, 1.0)


def counts(group, *sockets):
    for number, count in enumerate(sockets):
        path = group / f"mon_data/mon_L3_{number:02}"
        path.mkdir(parents=True, exist_ok=True)
        (path / "mbm_total_bytes").write_text(f"{count}\n")


def test_each_part_and_the_machine_in_parts_of_what_the_memory_can_do(tmp_path):
    now = [0.0]
    meter = ResctrlMeter(gb_s=100, owner="me", root=tmp_path, clock=lambda: now[0])
    watched, limited = tmp_path / "mon_groups/berth-aa-1-0.me", tmp_path / "berth-bb-1-0.me"
    counts(tmp_path, 0, 0)
    counts(watched, 0, 0)
    counts(limited, 0, 0)
    assert meter.read_traffic({"aa": USE, "bb": USE}).memory_share is None
    now[0] = 2.0
    counts(tmp_path, 40_000_000_000, 20_000_000_000)  # the root's own count has that of its monitors in it
    counts(watched, 20_000_000_000, 0)
    counts(limited, 0, 60_000_000_000)
    found = meter.read_traffic({"aa": USE, "bb": USE, "cc": USE})
    assert (found.memory_share, dict(found.parts)) == (60.0, {"aa": 10.0, "bb": 30.0, "cc": None})
    now[0] = 3.0
    counts(watched, 0, 0)  # it began anew: never a made-up figure
    assert meter.read_traffic({"aa": USE}).parts == {"aa": None}


def test_a_counter_that_the_kernel_cannot_read_is_unknown(tmp_path):
    assert machine_bytes(tmp_path) is None
    counts(tmp_path, 1)
    (tmp_path / "mon_data/mon_L3_00/mbm_total_bytes").write_text("Unavailable\n")
    assert machine_bytes(tmp_path) is None
    assert capacity_measure(root=tmp_path, threads=1) is None


def settings_at(tmp_path, *more):
    return settings_from(["--url", "http://127.0.0.1:1", "--dir", str(tmp_path), "--name", "n1", *more], {})


def test_what_the_memory_can_do_is_given_or_measured_once_and_never_beside_jobs(tmp_path, monkeypatch):
    root = tmp_path / "resctrl"
    counts(root, 5)
    measured = []
    monkeypatch.setattr("workers.agent.sources.capacity_measure", lambda root: measured.append(root) or 123.4)
    (root / "mon_groups/berth-aa-1-0").mkdir(parents=True)
    assert memory_find(settings_at(tmp_path), has_gpus=True, root=root)[1]["meter"] == "probe"
    (root / "mon_groups/berth-aa-1-0").rmdir()
    for _ in range(2):
        told = memory_find(settings_at(tmp_path), has_gpus=True, root=root)[1]
        assert (told["meter"], told["gb_s"], len(measured)) == ("resctrl", 123.4, 1)
    assert json.loads((tmp_path / "memory.json").read_text())["gb_s"] == 123.4
    assert memory_find(settings_at(tmp_path, "--memory-bandwidth", "80"), has_gpus=True, root=root)[1]["gb_s"] == 80
    assert memory_find(settings_at(tmp_path), has_gpus=False, root=root)[0] is None


def test_the_probe_tells_how_far_copies_are_from_their_best():
    probe = ProbeMeter()
    assert probe.share() is None
    for _ in range(100):
        probe.note(10e9)
    assert probe.share() == 0
    for _ in range(8):
        probe.note(6e9)
    assert probe.share() == pytest.approx(80)
    for _ in range(8):
        probe.note(2e9)
    assert probe.share() == 100


def test_a_real_probe_costs_less_than_a_two_hundredth_of_a_core():
    """By its own count of time on the core; beside it the copies themselves."""
    probe = ProbeMeter()
    probe.start()
    try:
        from tests.workers.conftest import wait_until

        wait_until(lambda: probe.share() is not None, within_s=300.0)
        copies = len(probe._best)
        assert probe.cost_s / copies < 0.005 * 0.25  # one each quarter of a second
    finally:
        probe.stop()
