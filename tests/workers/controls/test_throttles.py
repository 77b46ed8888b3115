"""CPU jobs are held back: by MBA and version 2 in a tree as the kernel shows it, by version 1's quota for real."""

from __future__ import annotations

import json
import os

import pytest

from tests.workers.conftest import wait_until
from tests.workers.controls.test_cores import running
from tests.workers.controls.test_shim import ShimRun
from workers.controls.cgroups import Group, Home, group_find, group_make, part_name
from workers.controls.throttles import Throttle, means_find

HERE = group_make("probe", ("cpu",))
VERSION = HERE.home("cpu").version if HERE.home("cpu") else None
HERE.remove()


@pytest.fixture
def shim(tmp_path):
    run = ShimRun(tmp_path)
    yield run
    run.end()


@pytest.fixture
def resctrl(tmp_path):
    root = tmp_path / "resctrl"
    (root / "info/MB").mkdir(parents=True)
    (root / "mon_groups").mkdir()
    (root / "info/MB/min_bandwidth").write_text("10\n")
    (root / "info/MB/bandwidth_gran").write_text("10\n")
    (root / "schemata").write_text("    MB:0=100;1=100\n    L3:0=fff;1=fff\n")
    return root


@pytest.mark.parametrize(("share", "limit"), [(0.5, 50), (0.25, 30), (0.0625, 10)])
def test_mba_limits_each_socket_in_the_processors_steps_and_takes_every_thread_once(resctrl, share, limit):
    throttle = Throttle("k-1-0", None, resctrl)
    assert throttle.hold(share, used=3.0)
    own = resctrl / "berth-k-1-0"
    assert (throttle.by, (own / "schemata").read_text()) == ("mba", f"MB:0={limit};1={limit}\n")
    assert [throttle.take(4711), (own / "tasks").read_text(), throttle.take(4711)] == [True, "4711", False]
    throttle.release()
    assert (throttle.by, (own / "schemata").read_text()) == ("", "MB:0=100;1=100\n")


def test_a_quota_of_version_2_is_a_share_of_what_the_job_used_when_it_was_first_held(tmp_path):
    (tmp_path / "cpu.max").write_text("max 100000\n")
    throttle = Throttle("k-1-0", Group({"cpu": Home(tmp_path, 2)}), tmp_path / "none")
    for share, used, text in ((0.5, 3.0, "150000 100000"), (0.25, 1.5, "75000 100000"), (1.0, 0.7, "max 100000")):
        assert throttle.hold(share, used=used)
        assert (tmp_path / "cpu.max").read_text() == text
    throttle.hold(0.0625, used=0.0)
    assert (throttle.by, (tmp_path / "cpu.max").read_text()) == ("quota2", "1000 100000")  # the least the kernel takes


def test_without_means_it_says_so_and_what_is_found_leaves_nothing(tmp_path, resctrl):
    assert not Throttle("k-1-0", Group({}), tmp_path / "none").hold(0.5, used=1.0)
    assert means_find(resctrl=tmp_path / "none", group=Group({})) == "cores"
    found = means_find(resctrl=tmp_path / "none", name="found")
    assert found == ("cores" if VERSION is None else f"quota{VERSION}")
    assert not group_find(f"found-{os.getpid()}").homes
    assert means_find(resctrl=resctrl, group=Group({})) == "mba"


def held(run: ShimRun, share: float, sequence: int) -> dict:
    run.engine.cores(run.directory, [0], sequence=sequence, share=share)
    return wait_until(
        lambda: (h := run.engine.cores_held(run.directory)) and h["sequence"] == sequence and h, within_s=120.0
    )


@pytest.mark.skipif(VERSION != 1, reason="SKIPPED LOUDLY: no control group of version 1 with cpu can be made here")
def test_the_kernel_holds_a_real_hog_to_its_share_and_lets_it_go(shim):
    """Its own count says that the quota bit: no clock is asked, however busy the machine is."""
    running(shim.prepare(command="while :; do :; done & while :; do :; done", cores=[0]).start())
    wait_until(lambda: (u := shim.engine.usage(shim.directory)) and u.cpu_s > 0.5, within_s=300.0)
    home = group_find(part_name(shim.directory))
    cpu = next(h for h in home.homes.values() if h.number("cpu.cfs_period_us"))
    assert held(shim, 0.25, 5) == {
        "sequence": 5,
        "cores": [0],
        "settled": True,
        "by": "affinity",
        "share": 0.25,
        "throttle": "quota1",
    } | {"by": held(shim, 0.25, 5)["by"]}
    quarter = cpu.number("cpu.cfs_quota_us")
    assert 1000 <= quarter <= 50_000 * len(os.sched_getaffinity(0))
    wait_until(lambda: cpu.field("cpu.stat", "nr_throttled"), within_s=300.0)
    held(shim, 0.125, 6)
    assert cpu.number("cpu.cfs_quota_us") == pytest.approx(max(1000, quarter / 2), abs=1)
    held(shim, 1.0, 7)
    assert cpu.read("cpu.cfs_quota_us").strip() == "-1"
    held(shim, 0.5, 8)
    shim.engine.stop(shim.directory, grace_s=0, detail="test")
    wait_until(lambda: shim.engine.result(shim.directory), within_s=120.0)
    wait_until(lambda: not group_find(part_name(shim.directory)).homes)


@pytest.mark.parametrize("share", [0, -1, 1.5, "half", True, float("nan")])
def test_a_share_that_is_none_is_a_broken_order(tmp_path, share):
    from workers.controls.cores import ORDER, CoreOrders
    from workers.system.files import BrokenFileError
    from workers.system.procs import Tree

    (tmp_path / ORDER).write_text(json.dumps({"sequence": 1, "cores": [0], "share": share}))
    with pytest.raises(BrokenFileError):
        CoreOrders(tmp_path, Tree(os.getpid()), [0]).follow(0.0)


def test_where_no_means_are_left_it_keeps_fewer_of_its_cores(tmp_path, monkeypatch):
    from workers.controls.cores import ORDER, CoreOrders
    from workers.system.procs import Tree

    bound = []
    orders = CoreOrders(tmp_path, Tree(os.getpid()), [0, 1, 2, 3], throttle=Throttle("k", Group({}), tmp_path / "none"))
    orders._real = [0, 1, 2, 3]
    monkeypatch.setattr(CoreOrders, "_settle", lambda self, mask, until: (bound.append(sorted(mask)) or True, False))
    for sequence, share in ((1, 0.5), (2, 0.25), (3, 1.0)):
        (tmp_path / ORDER).write_text(json.dumps({"sequence": sequence, "cores": [0, 1, 2, 3], "share": share}))
        orders.follow(10.0 * sequence)
    assert bound == [[0, 1], [0], [0, 1, 2, 3]]
