"""Orders about cores reach every thread of a job, whatever the job does, and the shim stays the agent's own."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.workers.conftest import wait_until
from tests.workers.controls.test_shim import ShimRun
from workers.controls import cores
from workers.controls.cgroups import group_make, part_name
from workers.controls.cores import CoreOrders, cores_map
from workers.controls.limits import cpuset_of
from workers.system.procs import Tree, pss_mib

REAL = sorted(os.sched_getaffinity(0))
pytestmark = pytest.mark.skipif(len(REAL) < 2, reason="one core: nothing can be ordered")


@pytest.fixture
def shim(tmp_path):
    run = ShimRun(tmp_path)
    yield run
    run.end()


def masks(run: ShimRun) -> list[set[int]]:
    """What each thread of the job may use."""
    found = []
    for process in Tree(run.engine.shim(run.directory).pid).scan(full=True):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it ended meanwhile
            threads = list(Path(f"/proc/{process.pid}/task").iterdir())
            for thread in threads:
                with contextlib.suppress(ProcessLookupError):
                    found.append(os.sched_getaffinity(int(thread.name)))
    return found


def ordered(run: ShimRun, cores: list[int], sequence: int) -> dict:
    run.engine.cores(run.directory, cores, sequence=sequence)
    return wait_until(
        lambda: (h := run.engine.cores_held(run.directory)) and h["sequence"] == sequence and h, within_s=120.0
    )


def running(run: ShimRun) -> ShimRun:
    wait_until(lambda: run.engine.job(run.directory))
    return run


THREADS = (
    "$BERTH_PYTHON -c 'import os,threading,time\n"
    "for _ in range({n}): threading.Thread(target=time.sleep, args=(600,)).start()\n"
    'open("up", "w").write("1")\' & (while :; do sleep 0.05; done) & wait'
)


@pytest.mark.parametrize("virtual", [True, False])
def test_an_order_binds_all_threads_of_all_processes_and_growing_frees_them_again(shim, virtual):
    running(shim.prepare(command=THREADS.format(n=20), cores=[0, 1], virtual=virtual).start())
    wait_until((shim.job / "work/up").exists, within_s=120.0)
    told = shim.job / "cores"
    assert told.read_text() == "2\n"
    held = ordered(shim, [1], 1)
    assert (held["cores"], held["settled"]) == ([1], True)
    assert len(masks(shim)) > 20
    assert {frozenset(mask) for mask in masks(shim)} == {frozenset({REAL[1]})}
    assert told.read_text() == "1\n"
    ordered(shim, [0, 1], 2)
    assert {frozenset(mask) for mask in masks(shim)} == {frozenset(cores_map([0, 1], REAL))}
    assert os.sched_getaffinity(shim.engine.shim(shim.directory).pid) == set(REAL), "the shim is the agent's own"


def test_a_thread_that_the_job_bound_itself_stays_there(shim):
    pin = f'$BERTH_PYTHON -c \'import os,time; os.sched_setaffinity(0, [{REAL[0]}]); open("up","w"); time.sleep(600)\''
    running(shim.prepare(command=pin, cores=[0]).start())
    ordered(shim, [0, 1], 1)
    running(shim)
    wait_until((shim.job / "work/up").exists, within_s=120.0)
    ordered(shim, [1], 2)
    assert {REAL[0]} not in masks(shim)


def test_the_order_waits_for_a_shim_that_starts_later(shim):
    shim.prepare(command="sleep 600", cores=[0, 1])
    shim.engine.cores(shim.directory, [0], sequence=4)
    running(shim.start())
    wait_until(lambda: shim.engine.cores_held(shim.directory))
    assert {frozenset(mask) for mask in masks(shim)} == {frozenset({REAL[0]})}


HOSTILE = {
    "moves itself back": (
        '$BERTH_PYTHON -c \'import os,time\nopen("up","w")\nwhile True: os.sched_setaffinity(0, range(os.cpu_count())); '
        "time.sleep(0.001)'"
    ),
    "forks fast": "touch up; while :; do (:) & done",
    "has many threads": THREADS.format(n=1500),
}


@pytest.mark.parametrize("virtual", [True, False], ids=["affinity", "cpuset"])
@pytest.mark.parametrize("what", HOSTILE)
def test_no_job_keeps_the_shim_from_its_other_work(shim, what, virtual):
    running(shim.prepare(command=HOSTILE[what], cores=[0, 1], virtual=virtual).start())
    wait_until((shim.job / "work/up").exists, within_s=120.0)
    ordered(shim, [0], 1)
    shim.engine.stop(shim.directory, grace_s=0, detail="enough")
    assert shim.result()["reason"] == "stopped"


def test_a_job_that_fights_is_followed_for_a_while_and_then_named(tmp_path, monkeypatch):
    orders = CoreOrders(tmp_path, Tree(os.getpid()), [0, 1])
    monkeypatch.setattr(CoreOrders, "_settle", lambda *_: (False, True))
    (tmp_path / "cores.json").write_text(json.dumps({"sequence": 7, "cores": [0]}))
    orders.follow(100.0)
    orders.follow(109.0)
    assert not (tmp_path / "cores-held.json").exists()
    orders.follow(110.0)
    assert json.loads((tmp_path / "cores-held.json").read_text()) == {
        "sequence": 7,
        "cores": [0],
        "settled": False,
        "by": "affinity",
        "share": 1.0,
        "throttle": "",
    }


@pytest.fixture
def child():
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process.pid
        process.kill()


def test_a_job_that_is_looked_at_too_slowly_is_not_said_to_fight(tmp_path, child, monkeypatch):
    """On a machine with many more processes than cores a look may find no end in ten seconds."""
    orders = CoreOrders(tmp_path, Tree(os.getpid()), [0, 1])
    monkeypatch.setattr(cores, "SLICE_S", -1.0)
    monkeypatch.setattr(cores, "_bind", lambda *_: False)
    (tmp_path / "cores.json").write_text(json.dumps({"sequence": 7, "cores": [0]}))
    orders.follow(100.0)
    orders.follow(110.0)
    assert json.loads((tmp_path / "cores-held.json").read_text())["settled"] is True


def test_a_slice_is_processor_time(tmp_path, child, monkeypatch):
    """The kernel may keep the shim from its core for seconds: then a look is as long as ever all the same."""
    orders = CoreOrders(tmp_path, Tree(os.getpid()), [0, 1])
    bind, waits = cores._bind, iter([0.3])

    def waited(*arguments):
        time.sleep(next(waits, 0.0))
        return bind(*arguments)

    monkeypatch.setattr(cores, "_bind", waited)
    monkeypatch.setattr(cores, "THREADS_A_LOOK_AT_THE_CLOCK", 1)
    (tmp_path / "cores.json").write_text(json.dumps({"sequence": 7, "cores": [0]}))
    orders.follow(100.0)
    assert os.sched_getaffinity(child) == {REAL[0]}
    assert not orders.is_busy


def test_a_full_disk_costs_a_try_a_second_until_there_is_room(tmp_path, monkeypatch):
    orders = CoreOrders(tmp_path, Tree(os.getpid()), [0, 1])
    (tmp_path / "cores.json").write_text(json.dumps({"sequence": 7, "cores": [0]}))
    tries = []

    def full(*_, **__):
        tries.append(1)
        raise OSError(errno.ENOSPC, "no room")

    with monkeypatch.context() as disk:
        disk.setattr(cores, "write_json", full)
        now = 100.0
        while now < 110.0:
            orders.follow(now)
            assert orders.is_busy
            now = max(now + 0.001, orders.next_at)
    assert 5 <= len(tries) <= 11
    orders.follow(now)
    assert (orders.is_busy, json.loads((tmp_path / "cores-held.json").read_text())["sequence"]) == (False, 7)


@pytest.mark.parametrize("what", ["link", "fifo", "directory"])
def test_whatever_a_job_puts_where_its_number_is_told_harms_nobody(tmp_path, what):
    told, others = tmp_path / "job" / "cores", tmp_path / "others"
    told.parent.mkdir()
    others.write_text("not the job's")
    if what == "link":
        told.symlink_to(others)
    elif what == "fifo":
        os.mkfifo(told)
    else:
        (told / "full").mkdir(parents=True)
    CoreOrders(tmp_path, Tree(os.getpid()), [0, 1], count_file=told).write_count()
    assert (told.is_symlink(), told.read_text(), others.read_text()) == (False, "2\n", "not the job's")


@pytest.mark.skipif(os.geteuid() != 0, reason="SKIPPED LOUDLY: a shim hides its pages from all accounts but root")
def test_the_shim_stays_small(shim):
    running(shim.prepare(command=HOSTILE["has many threads"], cores=[0, 1]).start())
    wait_until((shim.job / "work/up").exists, within_s=120.0)
    ordered(shim, [0], 1)
    assert pss_mib(shim.engine.shim(shim.directory).pid) < 12


def tree_of(root: Path, *, passes_on: str, own: str = "/agent") -> dict[str, Path]:
    """A cgroup v2 file tree as the kernel shows it, with `own` the shim's cgroup."""
    inside = root / "cg" / own.strip("/")
    inside.mkdir(parents=True)
    for directory in {root / "cg", inside}:
        (directory / "cgroup.controllers").write_text("cpuset cpu")
        (directory / "cgroup.subtree_control").write_text(passes_on if directory != inside else "")
        (directory / "cgroup.procs").write_text("")
    (root / "mountinfo").write_text(f"41 31 0:38 / {root}/cg rw,relatime - cgroup2 cgroup2 rw\n")
    (root / "cgroup").write_text(f"0::{own}\n")
    return {"mounts": root / "mountinfo", "own": root / "cgroup"}


def test_version_two_is_used_beside_the_own_cgroup_where_it_is_passed_on(tmp_path, monkeypatch):
    paths = tree_of(tmp_path, passes_on="cpuset")
    made = Path.mkdir

    def mkdir(self, *a, **k):
        made(self, *a, **k)
        (self / "cgroup.procs").touch()

    (tmp_path / "cg/agent/cgroup.controllers").write_text("cpu")  # not in it
    monkeypatch.setattr(Path, "mkdir", mkdir)
    group = group_make("k-1-0", ("cpuset",), **paths)
    cpuset = cpuset_of(group, [3, 1])
    assert (cpuset.version, cpuset.path) == (2, tmp_path / "cg/berth-k-1-0")
    assert (cpuset.path / "cpuset.cpus").read_text() == "1,3"
    group.enter()
    assert (cpuset.path / "cgroup.procs").read_text() == "0"


def test_nobody_elses_cgroups_are_changed_to_get_one(tmp_path):
    paths = tree_of(tmp_path, passes_on="cpu")
    (tmp_path / "cg/agent/cgroup.controllers").write_text("cpu")
    before = {path: path.is_file() and path.read_text() for path in tmp_path.rglob("*")}
    assert cpuset_of(group_make("k-1-0", ("cpuset",), **paths), [1]) is None
    assert {path: path.is_file() and path.read_text() for path in tmp_path.rglob("*")} == before


def test_a_cpuset_is_gone_with_its_job(shim):
    group = group_make("probe", ("cpuset",))
    made = cpuset_of(group, [REAL[0]])
    if made is None:
        pytest.skip("no writable cpuset on this machine")
    group.remove()
    running(shim.prepare(command="sleep 600", cores=[0], virtual=False).start())
    path = made.path.with_name(f"berth-{part_name(shim.directory)}")
    assert (path / "cpuset.cpus").read_text().strip() == str(REAL[0])
    shim.engine.stop(shim.directory, grace_s=0, detail="")
    shim.result()
    assert not path.exists()
