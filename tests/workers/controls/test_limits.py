"""A part's own control group: made where it may be, with limits that the kernel keeps, and gone with the part."""

from __future__ import annotations

import base64
import os
import signal
from pathlib import Path

import pytest

from tests.workers.conftest import wait_until
from tests.workers.controls.test_shim import ShimRun
from workers.controls.cgroups import CONTROLLERS, group_find, group_make, groups_sweep, part_name
from workers.controls.limits import limits_set, memory_over

HERE = group_make("probe", CONTROLLERS)
HAS = set(HERE.homes)
HERE.remove()
LAUNCH = {"memory_mib": 64, "pids_limit": 20, "nice": 3, "hidden_devices": ["/dev/full", "/nowhere"]}


def needs(controller: str):
    why = f"SKIPPED LOUDLY: no control group with {controller!r} can be made here (root, or delegation, is needed)"
    return pytest.mark.skipif(controller not in HAS, reason=why)


@pytest.fixture
def shim(tmp_path):
    run = ShimRun(tmp_path)
    yield run
    run.end()


def second_version(root: Path, monkeypatch, *, passes_on: str, has: str = "") -> dict[str, Path]:
    """A tree of version 2 as the kernel shows it; the shim's own group is /agent."""
    for directory, own in ((root / "cg", has or passes_on), (root / "cg/agent", has)):
        directory.mkdir()
        (directory / "cgroup.controllers").write_text(own)
        (directory / "cgroup.subtree_control").write_text(
            passes_on if own == (has or passes_on) and directory.name == "cg" else ""
        )
        (directory / "cgroup.procs").write_text("")
    (root / "mountinfo").write_text(f"41 31 0:38 / {root}/cg rw,relatime - cgroup2 cgroup2 rw\n")
    (root / "cgroup").write_text("0::/agent\n")
    made = Path.mkdir

    def mkdir(self, *a, **k):
        made(self, *a, **k)
        if self.name.startswith("berth-"):
            for name in ("cgroup.procs", "memory.max", "memory.swap.max", "pids.max", "cpu.weight.nice"):
                (self / name).write_text("")

    monkeypatch.setattr(Path, "mkdir", mkdir)
    return {"mounts": root / "mountinfo", "own": root / "cgroup"}


@pytest.mark.parametrize("name", [b"a\rb", b"a\xc2\x85b", b"a\xe2\x80\xa8b", b"a\xc2\xa0b", b"a\xffb", b"a\x0cb"])
def test_a_mount_of_any_name_hides_no_group(tmp_path, monkeypatch, name):
    """The kernel writes blanks, tabs, line feeds and backslashes of a path as numbers, and nothing else."""
    paths = second_version(tmp_path, monkeypatch, passes_on="memory pids cpu")
    rows = paths["mounts"].read_bytes()
    paths["mounts"].write_bytes(b"40 31 0:37 / /mnt/" + name + b" rw,relatime - fuse.x x rw\n" + rows)
    assert group_make("k", CONTROLLERS, **paths).paths == [tmp_path / "cg/berth-k"]


def test_version_two_is_one_directory_with_what_is_passed_on(tmp_path, monkeypatch):
    paths = second_version(tmp_path, monkeypatch, passes_on="memory pids cpu")
    group = group_make("k", CONTROLLERS, **paths)
    limits_set(group, LAUNCH)
    home = tmp_path / "cg/berth-k"
    assert (group.paths, set(group.homes)) == ([home], {"memory", "pids", "cpu"})
    said = {
        name: (home / name).read_text() for name in ("memory.max", "memory.swap.max", "pids.max", "cpu.weight.nice")
    }
    assert said == {"memory.max": str(64 << 20), "memory.swap.max": "0", "pids.max": "20", "cpu.weight.nice": "3"}
    (home / "memory.events").write_text("low 0\noom 1\noom_kill 2\n")
    (home / "memory.peak").write_text(str(63 << 20))
    assert memory_over(group, 1.0, 64) == "it used 63 MiB of memory and asked for more; its limit is 64 MiB"
    assert memory_over(group, 1.0, None) is None
    assert group_find("k", **paths).paths == [home]


def test_version_two_without_controllers_tells_who_is_in_it(tmp_path, monkeypatch):
    paths = second_version(tmp_path, monkeypatch, passes_on="", has="")
    group = group_make("k", CONTROLLERS, **paths)
    assert (set(group.homes), group.paths) == ({""}, [tmp_path / "cg/agent/berth-k"])
    (group.paths[0] / "cgroup.procs").write_text("12\n13\n")
    assert group.pids() == {12, 13}


def test_a_controller_that_refuses_is_done_without(tmp_path, monkeypatch):
    paths = second_version(tmp_path, monkeypatch, passes_on="memory pids cpu")
    group = group_make("k", CONTROLLERS, **paths)
    (tmp_path / "cg/berth-k/memory.max").unlink()
    (tmp_path / "cg/berth-k/memory.max").mkdir()
    limits_set(group, LAUNCH)
    assert set(group.homes) == {"pids", "cpu"}


BOMB = """
import os, time
refused = 0
for number in range(300):  # a real one would never end; where nothing holds this one, the test fails and the machine lives
    try:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
    except BlockingIOError:
        refused += 1
print(refused, flush=True)
time.sleep(60)
"""


@needs("pids")
def test_a_fork_bomb_is_contained(shim):
    files = {"bomb.py": base64.b64encode(BOMB.encode()).decode()}
    shim.prepare(command='exec "$BERTH_PYTHON" -S bomb.py', files=files, pids_limit=60).start()
    wait_until(lambda: (shim.directory / "stdout").exists() and shim.stdout().endswith("\n"))
    assert int(shim.stdout()) >= 240
    group = group_find(part_name(shim.directory))
    shim.engine.stop(shim.directory, grace_s=0, detail="enough")
    assert shim.result()["reason"] == "stopped"
    assert not [path for path in group.paths if path.exists()]


@needs("memory")
def test_what_the_kernel_kills_for_memory_is_said_so(shim):
    """Taken within a moment, and by a child whose end the job passes over: the shim's own look would have missed it."""
    take = '"$BERTH_PYTHON" -S -c "bytearray(300<<20)" || true; sleep 60'
    result = shim.prepare(command=take, memory_mib=64).start().result()
    assert result["reason"] == "out_of_memory"
    assert result["detail"] == "it used 64 MiB of memory and asked for more; its limit is 64 MiB"
    assert result["peak_memory_mib"] >= 63


@needs("memory")
def test_a_job_that_the_kernel_kills_and_that_ends_at_once_ran_out_of_memory(shim):
    result = shim.prepare(command='exec "$BERTH_PYTHON" -S -c "bytearray(300<<20)"', memory_mib=64).start().result()
    assert (result["reason"], result["signal"]) == ("out_of_memory", signal.SIGKILL)


@needs("devices")
def test_a_hidden_device_is_closed_under_any_name(tmp_path):
    group = group_make("probe-devices", ("devices",))
    limits_set(group, LAUNCH)
    pid = os.fork()
    if pid == 0:
        group.enter()
        try:
            os.close(os.open("/dev/null", os.O_RDONLY))
            os.mknod(tmp_path / "mine", 0o666 | 0o020000, Path("/dev/full").stat().st_rdev)
            os.open(tmp_path / "mine", os.O_RDONLY)
        except PermissionError:
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert group.remove()


@pytest.mark.skipif(not HAS, reason="SKIPPED LOUDLY: no control group can be made here")
def test_who_leaves_no_trace_is_found_by_the_group_when_the_shim_is_killed(shim):
    """Its own session, no mark in its environment, no pipe, not yet noted: only the group knows it."""
    hide = "import os,time\nif os.fork() or os.setsid() or os.fork(): os._exit(0)\nos.execve('/bin/sleep', ['berth-hidden', '394'], {})"
    shim.prepare(command=f'(env -i python3 -c "{hide}" >/dev/null 2>&1 </dev/null &); sleep 60').start()
    group = wait_until(lambda: (found := group_find(part_name(shim.directory))).paths and found)
    pid = wait_until(lambda: next((p for p in group.pids() if _arguments(p).startswith(b"berth-hidden")), None))
    os.kill(shim.engine.shim(shim.directory).pid, signal.SIGKILL)
    wait_until(lambda: shim.engine.life(shim.directory) == "lost")
    (shim.directory / "processes").unlink(missing_ok=True)
    shim.engine.purge(shim.directory, mark=shim.mark)
    assert _arguments(pid) == b""
    wait_until(lambda: not [path for path in group.paths if path.exists()])


def _arguments(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.skipif(not HAS, reason="SKIPPED LOUDLY: no control group can be made here")
def test_an_agent_removes_what_killed_shims_left_and_nobody_elses(tmp_path):
    """Another Berth on the machine has an attempt of the same number: its group is its own."""
    other = tmp_path / "other/parts"
    parts = tmp_path / "parts"
    (parts / "6-1-0").mkdir(parents=True)
    left, running, strangers = (
        group_make(part_name(path), CONTROLLERS) for path in (parts / "5-1-0", parts / "6-1-0", other / "5-1-0")
    )
    try:
        assert groups_sweep(parts) >= 1
        assert [path.exists() for path in left.paths] == [False] * len(left.paths)
        assert all(path.exists() for path in (*running.paths, *strangers.paths))
    finally:
        for group in (left, running, strangers):
            group.remove()
