"""What the kernel keeps a job out of, tried by real jobs; and what is said where it cannot."""

from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workers.conftest import wait_until
from tests.workers.controls.test_shim import ShimRun, shim  # noqa: F401 - the fixture
from workers.agent.isolation import isolation_find, walls_of
from workers.system.landlock import ALL, NONE, READ, Walls, _filter, landlock_version

VERSIONS = range(2, landlock_version() + 1)
needs_landlock = pytest.mark.skipif(landlock_version() < 2, reason="SKIPPED LOUDLY: this kernel has no Landlock 2")

TRY = """
import ctypes, json, os, signal, socket, sys
from pathlib import Path
shim, room, outside, port, abstract = int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
source = Path(os.environ["BERTH_INSTRUMENT_PATH"]).parents[1]
other = room / "jobs/other"
def plug(kind, address):
    with socket.socket(kind) as s:
        s.connect(address)
def truncate(path):
    if ctypes.CDLL(None, use_errno=True).truncate(str(path).encode(), 0):
        raise OSError(ctypes.get_errno(), "truncate")
refused = {
    "read": lambda: (room / "secret-key").read_text(),
    "write": lambda: (room / "secret-key").write_text("mine"),
    "append": lambda: (room / "secret-key").open("a"),
    "truncate": lambda: truncate(room / "secret-key"),
    "list": lambda: os.listdir(room),
    "list above": lambda: os.listdir(room.parent),
    "make": lambda: (room / "new").touch(),
    "make beside": lambda: (room.parent / "new").touch(),
    "remove": lambda: (room / "secret-key").unlink(),
    "rename": lambda: (room / "secret-key").rename(Path(os.environ["TMPDIR"]) / "s"),
    "link": lambda: os.link(room / "secret-key", Path(os.environ["TMPDIR"]) / "s"),
    "another's part": lambda: (other / "work/data").read_text(),
    "another's list": lambda: os.listdir(other),
    "control": lambda: (room / "parts/5-2-0/launch.json").read_text(),
    "another's checkpoint": lambda: (room / "storage/checkpoints/other/best").read_text(),
    "environ": lambda: Path(f"/proc/{shim}/environ").read_bytes(),
    "memory": lambda: Path(f"/proc/{shim}/mem").open("rb"),
    "root": lambda: os.listdir(f"/proc/{shim}/cwd"),
    "code": lambda: (source / "workers/shim.py").open("a"),
    "code beside": lambda: (source / "workers/new.py").touch(),
    "interpreter": lambda: Path(os.__file__).open("a"),
}
apart = {
    "signal": lambda: os.kill(shim, 0),
    "abstract socket": lambda: plug(socket.AF_UNIX, chr(0) + abstract),
}
allowed = {
    "own": lambda: (Path(os.environ["BERTH_JOB_DIR"]) / "a").mkdir(),
    "own rename": lambda: (Path(os.environ["BERTH_JOB_DIR"]) / "a").rename(Path(os.environ["TMPDIR"]) / "a"),
    "checkpoint": lambda: (Path(os.environ["BERTH_CHECKPOINT_DIR"]) / "c").write_text("1"),
    "record": lambda: (Path(os.environ["BERTH_RECORDS_DIR"]) / "0").write_text("1"),
    "outside": lambda: (outside / "new").write_text("1"),
    "outside list": lambda: os.listdir(outside),
    "outside truncate": lambda: os.truncate(outside / "new", 0),
    "ftruncate": lambda: (outside / "new").open("r+").truncate(0),
    "null": lambda: Path("/dev/null").write_text("1"),
    "stdout by name": lambda: Path("/dev/stderr").open("w"),
    "code": lambda: (source / "workers/shim.py").read_text(),
    "own process": lambda: Path("/proc/self/environ").read_bytes(),
    "own signal": lambda: os.kill(os.getpid(), 0),
    "loopback": lambda: plug(socket.AF_INET, ("127.0.0.1", port)),
}
def outcome(act):
    try:
        act()
    except OSError as error:
        return error.strerror
    return "done"
json.dump({name: {k: outcome(a) for k, a in acts.items()} for name, acts in
           (("refused", refused), ("apart", apart), ("allowed", allowed))}, sys.stdout)
"""


def settings_for(room: Path, **changes) -> SimpleNamespace:
    return SimpleNamespace(
        **{"dir": room, "storage_dir": room / "storage", "closed": None, "isolation": "auto", "accounts": "off"}
        | changes
    )


@needs_landlock
@pytest.mark.parametrize("version", VERSIONS)
def test_a_job_is_kept_out_of_everything_but_its_own(shim, tmp_path, version):  # noqa: F811
    room = tmp_path
    for path in ("secret-key", "jobs/other/work/data", "storage/checkpoints/other/best", "agent.lock"):
        (room / path).parent.mkdir(parents=True, exist_ok=True)
        (room / path).write_text("secret")
    outside = Path(f"{tmp_path}-outside")
    outside.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as plug:
        plug.bind("\0" + (name := f"berth-test-{os.getpid()}-{version}"))
        plug.listen()
        run: ShimRun = shim
        arguments = f"$PPID {room} {outside} {server.getsockname()[1]} {name}"
        run.prepare(
            walls=walls_of(settings_for(room)),
            version=version,
            command=f'"$BERTH_PYTHON" try.py {arguments}',
            files={"try.py": base64.b64encode(TRY.encode()).decode()},
        )
        result = run.start().result()
    assert result["exit_code"] == 0, (run.directory / "stderr").read_text()
    found = json.loads(run.stdout())
    # What the system keeps for root is not walled: against a job of root nothing helps (`_SYSTEM`).
    systems = {"interpreter": "done"} if os.geteuid() == 0 and Path(os.__file__).is_relative_to("/usr") else {}
    assert {name: said for name, said in found["refused"].items() if said == "done"} == systems
    filtered = {"outside truncate": "Permission denied"} if version < 3 else {}  # Landlock 2 does not know the call
    assert {name: said for name, said in found["allowed"].items() if said != "done"} == filtered
    assert set(found["apart"].values()) == ({"Operation not permitted"} if version >= 6 else {"done"})
    assert (room / "secret-key").read_text() == "secret"


def test_without_walls_all_of_it_is_open(shim, tmp_path):  # noqa: F811
    """The test above could not fail otherwise."""
    (tmp_path / "secret-key").write_text("secret")
    shim.prepare(command=f"cat {tmp_path}/secret-key").start().result()
    assert shim.stdout() == "secret"


LACK = """
import ctypes, os, struct, sys
def step(code, operand, equal=0, unequal=0):
    return struct.pack("=HBBI", code, equal, unequal, operand)
code = step(0x20, 0) + step(0x15, 444, unequal=1) + step(0x06, 0x00050000 | 38) + step(0x06, 0x7FFF0000)
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(38, 1, 0, 0, 0)
assert libc.prctl(22, ctypes.c_ulong(2), ctypes.byref(Program(4, code)), 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_a_kernel_that_lacks_it_is_told_truthfully_and_jobs_run(portal, node, tmp_path):
    """The kernel says ENOSYS to this agent, as an old one does."""
    launcher = tmp_path / "python"
    launcher.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{LACK}' {sys.executable} \"$@\"\n")
    launcher.chmod(0o755)
    key = portal.want(command="echo hello")
    node.start("--accounts", "off", python=str(launcher))
    assert portal.wait_report(key, "ended")["exit_code"] == 0
    told = portal.inventories[-1]["isolation"]
    assert (told["files"], told["signals"], told["landlock"]) == (False, False, 0)
    assert "this kernel has no Landlock" in told["why"]


def test_an_agent_says_what_it_found(portal, node):
    portal.want(command="true")
    node.start("--isolation", "off")
    portal.wait_for(lambda: portal.inventories)
    assert "--isolation off" in portal.inventories[-1]["isolation"]["why"]
    node.end()
    node.start()
    wait_until(lambda: len(portal.inventories) > 2)
    told = portal.inventories[-1]["isolation"]
    if os.geteuid() == 0:
        assert (told["files"], told["signals"], told["why"]) == (True, True, "")
        assert {wall["name"]: wall["by"] for wall in told["walls"]}["accounts"] == "setuid"
        assert portal.inventories[-1]["single_account"] is False
    else:
        assert told["files"] == (landlock_version() >= 2)
        assert told["signals"] == (landlock_version() >= 6)


def test_what_does_not_close_is_not_called_closed(tmp_path):
    """The walls are tried: where they stand elsewhere the agent says that they do not hold."""
    (tmp_path / "agent.lock").touch()
    found, means = isolation_find(settings_for(tmp_path))
    assert (means.walls is not None) == (landlock_version() >= 2)
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "real/agent.lock").touch()
    found, means = isolation_find(settings_for(tmp_path / "link"))  # not resolved: the rule meets the link
    assert not found["files"]
    assert means.walls is None


def test_agent_and_shim_cannot_be_looked_into(portal, node, tmp_path):
    """By a process of the same account, isolation or not. None of them has root's powers, should the test be root."""
    key = portal.want(command="sleep 30")
    node.start("--isolation", "off", python=_powerless(tmp_path))
    portal.wait_report(key, "running")
    shim_pid = json.loads((node.part(key) / "shim.json").read_text())["pid"]
    seen = {
        name: _may_look(tmp_path, pid)
        for name, pid in (
            ("agent", node.process.pid),
            ("shim", shim_pid),
            ("job", portal.report_of(key, "running")["pid"]),
        )
    }
    assert seen == {"agent": False, "shim": False, "job": True}


def _powerless(tmp_path: Path) -> str:
    """A Python without capabilities."""
    launcher = tmp_path / "powerless"
    drop = "" if os.geteuid() else f"{shutil.which('setpriv')} --bounding-set=-all --inh-caps=-all "
    launcher.write_text(f'#!/bin/sh\nexec {drop}{sys.executable} "$@"\n')
    launcher.chmod(0o755)
    return str(launcher)


def _may_look(tmp_path: Path, pid: int) -> bool:
    code = (
        "import sys\ntry: open(f'/proc/{sys.argv[1]}/environ', 'rb').read()\nexcept PermissionError: print('refused')"
    )
    command = [_powerless(tmp_path), "-c", code, str(pid)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout == ""


names = st.sampled_from(["a", "b", "c"])
places = st.lists(names, min_size=1, max_size=4).map("/".join)


@given(
    tree=st.sets(places, min_size=1, max_size=12),
    closed=st.sets(places, max_size=3),
    readable=st.sets(places, max_size=3),
)
@settings(max_examples=150, deadline=None)
def test_exactly_what_is_closed_is_closed(tmp_path_factory, tree, closed, readable):
    """For every place of a random tree: what the nearest special one above says, all beside the way, nothing on it."""
    root = tmp_path_factory.mktemp("tree").resolve()
    readable -= closed
    for place in tree | closed | readable:
        (root / place).mkdir(parents=True, exist_ok=True)
    special = {root / p: NONE for p in closed} | {root / p: READ for p in readable}
    granted = dict(Walls(tuple(root / p for p in closed), tuple(root / p for p in readable), ()).grants())
    above = {up for path in special for up in path.parents}
    for place in [root, *root.rglob("*")]:
        rights = NONE
        for up in [place, *place.parents]:
            rights |= granted.get(up, NONE)
        nearest = next((special[up] for up in [place, *place.parents] if up in special), ALL)
        assert rights == (NONE if place in above else nearest), place


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers are those of x86-64")
def test_the_filter_refuses_truncate_alone():
    """A machine of four instructions runs the filter over every call of both architectures."""
    code = _filter({0xC000003E: (76, 0x40000000 | 76), 0x40000003: (92, 193)})
    for architecture, refused in ((0xC000003E, {76, 0x4000004C}), (0x40000003, {92, 193}), (0x1234, set())):
        for number in [*range(600), 0x4000004C]:
            assert (_run(code, architecture, number) != 0x7FFF0000) == (number in refused)


def _run(code: bytes, architecture: int, number: int) -> int:
    steps = [struct.unpack("=HBBI", code[at : at + 8]) for at in range(0, len(code), 8)]
    at, word = 0, 0
    while True:
        operation, equal, unequal, operand = steps[at]
        if operation == 0x06:
            return operand
        if operation == 0x20:
            word = {0: number, 4: architecture}[operand]
        at += 1 + ((equal if word == operand else unequal) if operation == 0x15 else 0)
