"""Two tenants who do not trust each other share one node, as root runs it: whatever one tries at the other fails.

A real agent with real shims. Each way of setting jobs apart is tried: with a view of files of its own, and with accounts
alone, as in a container whose root may not mount. Without either all of it is open, which shows that the acts are real.
"""

from __future__ import annotations

import base64
import ctypes
import inspect
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from tests.remains import kill_all_of, processes_of
from tests.smalldisk import small_disk
from tests.system.helpers import intruder
from tests.workers.conftest import AgentRunner, wait_until
from tests.workers.small_portal import SmallPortal
from workers.agent.trying import try_limits
from workers.controls.cgroups import PREFIX, group_find, part_name
from workers.parts.accounts import BASE
from workers.system.trees import tree_remove

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(os.geteuid() != 0, reason="SKIPPED LOUDLY: accounts for tenants need root"),
    pytest.mark.slow,
]
LIMITS = {wall["name"]: wall["by"] for wall in try_limits()}
SCRIPT = {"intruder.py": base64.b64encode(inspect.getsource(intruder).encode()).decode()}
ACME, EVIL = 100_000 + os.getpid(), 5_000_000 + os.getpid()
"""Nobody else on this machine runs jobs of these, nor has their accounts."""
SEGMENT = 0x62657274
VICTIM = f"""
import ctypes, os, pathlib, time
for path in ("secret", os.environ["BERTH_CHECKPOINT_DIR"] + "/secret", "/tmp/berth-secret", "/dev/shm/berth-secret"):
    pathlib.Path(path).write_text("mine")
ctypes.CDLL(None).shmget({SEGMENT}, 4096, 0o1600)
print("ready", flush=True)
time.sleep(600)
"""
JOBS = int(os.environ.get("BERTH_TEST_JOBS", "12"))
"""So many are started and ended to see what they leave."""


class Node(AgentRunner):
    """An agent whose tenants acme and evil do not trust each other."""

    def __init__(self, directory: Path) -> None:
        self.portal = SmallPortal(report_period_s=0.5)
        super().__init__(directory, self.portal.url)

    def up(self, *flags: str, **environment: str) -> Node:
        self.start("--pids-limit", "64", "--keep-ended-s", "0", "--nice", "0", *flags, **environment)
        return self

    def walls(self) -> dict[str, str]:
        told = self.portal.wait_for(lambda: self.portal.inventories and self.portal.inventories[-1])
        return {wall["name"]: wall["by"] for wall in told["isolation"]["walls"]}

    def run(self, number: int, command: str, *, tenant: int, **spec) -> tuple:
        name = {ACME: "acme", EVIL: "evil"}[tenant]
        return self.portal.want(attempt=number, job=number, tenant=name, tenant_id=tenant, command=command, **spec)

    def said(self, key: tuple, ending: str) -> str:
        log = self.portal.logs
        return self.portal.wait_for(lambda: (text := log.get((*key, "stdout"), b"").decode()).endswith(ending) and text)


@pytest.fixture
def node(tmp_path):
    runner = Node(tmp_path / "node")
    yield runner
    if runner.process and runner.process.poll() is None:
        runner.kill()
    kill_all_of(runner.directory)
    runner.portal.close()
    print(runner.log.read_text())


def victim_of(node: Node) -> tuple:
    files = {"victim.py": base64.b64encode(VICTIM.encode()).decode()}
    key = node.run(1, 'exec "$BERTH_PYTHON" victim.py', tenant=ACME, environment={"SECRET": "mine"}, files=files)
    node.said(key, "ready\n")
    return key


def places(node: Node, key: tuple) -> str:
    """All that the intruder needs to know: what is documented is no secret."""
    pid = json.loads((node.part(key) / "job.json").read_text())["pid"]
    shim = json.loads((node.part(key) / "shim.json").read_text())["pid"]
    group = [str(path) for path in group_find(part_name(node.part(key))).paths if (path / "pids.max").exists()]
    at = {
        "node": str(node.directory),
        "job": str(node.job(key)),
        "control": str(node.part(key)),
        "own_control": str(node.part(("2", 1, 0))),
        "checkpoints": str(node.directory / "storage/checkpoints/1"),
        "pid": pid,
        "shim": shim,
        "agent": node.process.pid,
        "uid": BASE + ACME,
        "segment": SEGMENT,
        "group": group[0] if group else "/sys/fs/cgroup",
    }
    return json.dumps(at)


def told_by(node: Node, key: tuple) -> dict:
    command = f"exec \"$BERTH_PYTHON\" intruder.py '{places(node, key)}'"
    other = node.run(2, command, tenant=EVIL, files=SCRIPT)
    ended = node.portal.wait_report(other, "ended")
    assert ended["exit_code"] == 0, ended
    return json.loads(node.said(other, "}\n"))


def test_nothing_of_another_tenant_can_be_reached(node):
    assert node.up().walls()["mounts"] == "namespace"
    key = victim_of(node)
    told = told_by(node, key)
    assert {name: said for name, said in told["refused"].items() if said == "done"} == {}
    assert {name: said for name, said in told["allowed"].items() if said != "done"} == {}
    uid = [str(BASE + EVIL)] * 4
    status = told["status"]
    assert (status["Uid"], status["Gid"], status["Groups"], status["NoNewPrivs"]) == (uid, uid, [], ["1"])
    assert int(status["CapEff"][0], 16) == int(status["CapPrm"][0], 16) == 0
    assert len(told["processes"]) == 1, "it sees its own processes alone"
    assert node.portal.report_of(key, "ended") is None
    assert node.process.poll() is None
    assert (node.job(key) / "work/secret").read_text() == "mine"


LACK = """
import ctypes, os, struct, sys
def step(code, operand, equal=0, unequal=0):
    return struct.pack("=HBBI", code, equal, unequal, operand)
code = step(0x20, 0) + step(0x15, 272, unequal=1) + step(0x06, 0x00050000 | 1) + step(0x06, 0x7FFF0000)
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(22, ctypes.c_ulong(2), ctypes.byref(Program(4, code)), 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Refuses unshare(2), by its number on x86-64, as a container's engine does."""


def without_mounts(tmp_path: Path) -> str:
    launcher = tmp_path / "python"
    launcher.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{LACK}' {sys.executable} \"$@\"\n")
    launcher.chmod(0o755)
    return str(launcher)


def test_where_root_may_not_mount_accounts_keep_them_apart_or_the_remedy_is_said(node, tmp_path):
    node.up(python=without_mounts(tmp_path))
    walls = node.walls()
    assert walls["mounts"] == ""
    told = node.portal.inventories[-1]
    if walls["accounts"] == "":  # Berth's Python lies where accounts may not go
        assert told["single_account"] is True
        assert "install Berth" in next(w["why"] for w in told["isolation"]["walls"] if w["name"] == "accounts")
        return
    key = victim_of(node)
    found = told_by(node, key)["refused"]
    shared = {"read its temporary file", "read its shared memory"}  # they have modes of their own
    assert {name for name, said in found.items() if said == "done"} <= shared


def test_without_any_of_it_the_acts_succeed(node):
    """The tests above could not fail otherwise."""
    node.up("--isolation", "off", "--trust-tenants")
    key = victim_of(node)
    told = told_by(node, key)["refused"]
    for name in (
        "read its file",
        "read its checkpoint",
        "read its temporary file",
        "read the token",
        "read its launch",
    ):
        assert told[name] == "done", name
    for name in ("read its segment", "read its environment", "change own launch", "become root"):
        assert told[name] == "done", name
    ctypes.CDLL(None).shmctl(ctypes.CDLL(None).shmget(SEGMENT, 0, 0), 0, None)
    for path in ("/tmp/berth-secret", "/dev/shm/berth-secret", "/tmp/own", "/dev/shm/own"):
        Path(path).unlink(missing_ok=True)


def test_an_account_that_the_node_has_is_the_tenants_and_no_other_is_taken(node):
    node.up()
    named = node.run(1, "echo $(id -u) $(id -g) $USER.", tenant=ACME, unix_account="nobody-here")
    assert node.said(named, ".\n") == f"{BASE + ACME} {BASE + ACME} {BASE + ACME}.\n"
    for number, name in ((2, "root"), (3, "daemon")):
        refused = node.run(number, "id -u", tenant=ACME, unix_account=name)
        ended = node.portal.wait_report(refused, "ended")
        assert ended["reason"] == "start_failed"
        assert f"may not run as {name}" in ended["detail"]


@pytest.fixture
def of_root():
    """A directory that root alone may enter, outside /tmp."""
    path = Path(tempfile.mkdtemp(prefix="berth-test-", dir="/var/lib"))
    yield path
    shutil.rmtree(path)


@pytest.mark.parametrize("profile", [False, True])
def test_a_working_directory_is_entered_and_copied_by_the_accounts_own_rights(node, of_root, profile):
    node.up()
    key = node.run(1, "ls", tenant=ACME, working_directory=str(of_root), profile=profile)
    ended = node.portal.wait_report(key, "ended")
    assert (ended["reason"], "Permission denied" in ended["detail"]) == ("start_failed", True)
    of_root.chmod(0o755)
    (of_root / "data").write_text("of the tenant")
    late = node.run(2, "cat data; echo .", tenant=ACME, working_directory=str(of_root), profile=profile)
    assert node.said(late, ".\n") == "of the tenant.\n"


@pytest.mark.skipif(not LIMITS["pids"], reason="SKIPPED LOUDLY: no control group with pids can be made here")
def test_a_fork_bomb_is_contained(node):
    node.up()
    victim = victim_of(node)
    command = '"$BERTH_PYTHON" -c "import intruder; print(intruder.bomb(), flush=True); import time; time.sleep(60)"'
    bomb = node.run(2, command, tenant=EVIL, files=SCRIPT, environment={"PYTHONPATH": "."})
    assert int(node.said(bomb, "\n")) >= 230
    late = node.run(3, "(:); echo fine", tenant=ACME)
    assert node.said(late, "fine\n")
    node.portal.stop(bomb, grace_s=0)
    node.portal.wait_report(bomb, "ended")
    assert not group_find(part_name(node.part(bomb))).paths
    assert node.portal.report_of(victim, "ended") is None


def test_who_takes_too_much_disk_or_log_is_ended_or_cut_and_nobody_else_notices(tmp_path):
    with small_disk(96) as disk:
        disk.path.chmod(0o700)
        node = Node(disk.path / "node").up("--disk-low-mib", "8")
        try:
            victim = victim_of(node)
            full = node.run(2, "head -c 200M /dev/zero > big; sleep 600", tenant=EVIL, disk_mib=16)
            flood = node.run(3, "yes | head -c 100M", tenant=EVIL, log_limit_bytes=1 << 20)
            assert node.portal.wait_report(full, "ended")["reason"] == "disk_limit"
            assert node.portal.wait_report(flood, "ended")["exit_code"] == 0
            assert (node.part(flood) / "stdout").stat().st_size == 1 << 20
            assert node.said(node.run(4, "echo fine > f; cat f", tenant=ACME), "fine\n")
            assert node.portal.report_of(victim, "ended") is None
        finally:
            node.kill()
            kill_all_of(node.directory)
            node.portal.close()


def left_of(node: Node) -> dict[str, object]:
    """All that jobs could leave on this machine."""
    ours = (str(BASE + ACME), str(BASE + EVIL))
    segments = [line.split()[7] for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]]
    return {
        "processes": [line for _, line in processes_of(node.directory) if "workers.agent" not in line],
        "of accounts": [
            p for p in Path("/proc").iterdir() if p.name.isdigit() and _owner(p) in {BASE + ACME, BASE + EVIL}
        ],
        "mounts": [m for m in Path("/proc/self/mountinfo").read_text().splitlines() if str(node.directory) in m],
        "segments": [uid for uid in segments if uid in ours],
        "shared memory": [p for p in Path("/dev/shm").iterdir() if _owner(p) in {BASE + ACME, BASE + EVIL}],
        "groups": [str(p) for p in Path("/sys/fs/cgroup").rglob(f"{PREFIX}leave*")],
        "files": sorted(str(p) for name in ("parts", "jobs") for p in (node.directory / name).rglob("*")),
    }


def _owner(path: Path) -> int:
    """Return whose it is; of nobody's a process that has ended and whose parent, pytest itself, has not asked yet."""
    try:
        ended = path.parent == Path("/proc") and (path / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
        return -1 if ended else path.stat().st_uid
    except OSError:
        return -1


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


TENACIOUS = (
    "(trap '' TERM; setsid sleep 597 & setsid sh -c 'sleep 598 & sleep 599' &) >/dev/null 2>&1; : > /dev/shm/left"
)


def test_jobs_leave_nothing(node):
    """Each leaves processes of other sessions, that ignore SIGTERM, and a file in shared memory."""
    node.up()
    first = node.run(9000, "true", tenant=ACME)
    node.portal.wait_report(first, "ended")
    open_before = descriptors(node.process.pid)
    wave = 12
    for start in range(0, JOBS, wave):
        numbers = range(start, min(start + wave, JOBS))
        keys = [
            node.portal.want(attempt=f"leave{n}", job=10_000 + n, tenant_id=(ACME, EVIL)[n % 2], command=TENACIOUS)
            for n in numbers
        ]
        for key in keys:
            assert node.portal.wait_report(key, "ended", within_s=120)["exit_code"] == 0
    wait_until(lambda: descriptors(node.process.pid) <= open_before + 2)  # a connection more or less
    node.end()
    node.up()  # an agent's first act is to remove what is over
    wait_until(lambda: not list((node.directory / "jobs").iterdir()))
    wait_until(lambda: not list((node.directory / "parts").iterdir()))
    assert {kind: left for kind, left in left_of(node).items() if left} == {}
    tree_remove(node.directory / "storage")


def test_killed_shims_leave_no_mount_and_no_group(node):
    node.up()
    key = node.run(1, TENACIOUS + "; sleep 600", tenant=ACME)
    node.portal.wait_report(key, "running")
    node.kill()
    os.kill(json.loads((node.part(key) / "shim.json").read_text())["pid"], 9)
    node.up()
    assert node.portal.wait_report(key, "ended")["reason"] == "lost"
    assert not group_find(part_name(node.part(key))).paths
    assert str(node.directory) not in Path("/proc/self/mountinfo").read_text()
    assert not [line for _, line in processes_of(node.directory) if "workers.agent" not in line]
