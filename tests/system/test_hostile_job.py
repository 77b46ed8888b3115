"""A hostile job does to its directory, its environment and its neighbours whatever it can: it fails, nobody else notices.

A real agent with real shims on one node. Beside each hostile job runs another's job to its end; telemetry and contact go
on, a new job starts at once, and no secret is in any log. Each twice: where the kernel keeps jobs out (Landlock), and
where the operator has turned that off, as on a kernel that cannot.
"""

from __future__ import annotations

import base64
import inspect
import os
import time

import pytest

from tests.remains import kill_all_of, processes_of
from tests.system.helpers import hostile
from tests.workers.conftest import AgentRunner, command_lines, wait_until
from tests.workers.small_portal import NODE_TOKEN, SmallPortal
from workers.system.trees import tree_remove

pytestmark = [pytest.mark.system, pytest.mark.slow]

SCRIPT = base64.b64encode(inspect.getsource(hostile).encode()).decode()
NEIGHBOUR = "for i in $(seq 60); do echo line $i; sleep 0.1; done; echo done"
LOG_LIMIT_BYTES = 1 << 20
QUIET_S = 12.0
"""Contact and telemetry come each half second and each second; a busy machine is given this much longer."""
FILES = [
    "fifo",
    "fifo_everywhere",
    "link",
    "hard_link",
    "device",
    "directory",
    "broken_records",
    "foreign_records",
    "huge_records",
    "closed",
    "all_gone",
]
OTHERS = ["records", "deep", "flood", "outputs_closed", "forks", "environment", "peeks"]


@pytest.fixture(params=["auto", "off"])
def hostile_node(request, tmp_path):
    portal = SmallPortal(report_period_s=0.5)
    (tmp_path / "secret-key").write_text(hostile.SECRET + "\n")
    runner = AgentRunner(tmp_path / "node", portal.url)
    runner.isolation = request.param
    runner.start("--isolation", request.param, "--keep-ended-s", "0", "--closed", str(tmp_path))
    yield portal, runner
    if runner.process.poll() is None:
        runner.kill()
    kill_all_of(runner.directory)
    portal.close()
    print(runner.log.read_text())
    tree_remove(
        runner.directory
    )  # pytest itself cannot remove a tree of thousands of levels, and would fail much later


def jobs_left(runner):
    """Command lines of what still runs of this node's jobs."""
    return [line for _, line in processes_of(runner.directory) if "workers.agent" not in line]


def attack(portal, number, name):
    return portal.want(
        attempt=number,
        job=number,
        tenant="evil",
        command=f'"$BERTH_PYTHON" ../work/hostile.py {name}; sleep 4',
        files={"hostile.py": SCRIPT},
        time_limit_s=60,
        log_limit_bytes=LOG_LIMIT_BYTES,
    )


def nobody_else_notices(portal, runner, names):
    """The hostile jobs end, the neighbour ends well, the agent is the same process, and it never was silent for long."""
    neighbour = portal.want(attempt=900, job=900, command=NEIGHBOUR)
    portal.wait_report(neighbour, "running")
    pid, began = runner.process.pid, time.monotonic()
    keys = {name: attack(portal, 1 + n, name) for n, name in enumerate(names)}
    assert portal.wait_report(neighbour, "ended", within_s=120)["exit_code"] == 0
    log = portal.wait_for(
        lambda: portal.logs[*neighbour, "stdout"].endswith(b"done\n") and portal.logs[*neighbour, "stdout"]
    )
    assert log.count(b"line ") == 60
    for name, key in keys.items():
        ended = portal.wait_report(key, "ended", within_s=120)
        assert ended["reason"] in {"exit", "stopped", "lost", "start_failed", "time_limit", "disk_limit"}, (name, ended)
    late = portal.want(attempt=901, job=901, command="echo still here")
    assert portal.wait_report(late, "ended")["exit_code"] == 0
    assert runner.process.poll() is None
    assert runner.process.pid == pid
    assert portal.longest_silence("report", since=began) < QUIET_S
    assert portal.longest_silence("telemetry", since=began) < QUIET_S
    for told in [*portal.logs.values(), *(str(r).encode() for r in portal.records.values())]:
        assert hostile.SECRET.encode() not in told
        assert NODE_TOKEN.encode() not in told
    return keys


def test_nothing_done_to_files_is_felt_by_anybody_else(hostile_node):
    portal, runner = hostile_node
    nobody_else_notices(portal, runner, FILES)
    runner.kill()
    runner.start("--isolation", runner.isolation)  # whatever they left, the next agent comes up
    again = portal.want(attempt=950, job=950, command="echo after")
    assert portal.wait_report(again, "ended")["exit_code"] == 0


@pytest.mark.parametrize("name", ["records", "deep", "flood", "forks"])
def test_nothing_else_is_felt_either(hostile_node, name):
    portal, runner = hostile_node
    key = nobody_else_notices(portal, runner, [name])[name]
    assert len(portal.logs.get((*key, "stdout"), b"")) <= LOG_LIMIT_BYTES
    wait_until(lambda: not jobs_left(runner))


def test_a_log_without_end_costs_no_more_than_its_limit(hostile_node):
    portal, runner = hostile_node
    key = attack(portal, 1, "flood")
    portal.wait_report(key, "running")
    most = 0
    while portal.report_of(key, "ended") is None:
        most = max(most, sum(p.lstat().st_size for p in runner.part(key).glob("std*")))
        time.sleep(0.05)
    assert 0 < most <= 2 * LOG_LIMIT_BYTES + 65536


def test_who_hides_is_found_when_the_shim_is_killed(hostile_node):
    portal, runner = hostile_node
    key = portal.want(command='"$BERTH_PYTHON" hostile.py environment; sleep 60', files={"hostile.py": SCRIPT})
    portal.wait_report(key, "running")
    wait_until(lambda: any(line.startswith("sleep 391") for line in command_lines()))
    time.sleep(2.5)  # the shim looks at its processes each second
    shim = next(pid for pid, line in processes_of(runner.part(key)) if "shim.py" in line)
    os.kill(shim, 9)
    assert portal.wait_report(key, "ended")["reason"] == "lost"
    assert not [line for line in command_lines() if line.startswith("sleep 391")]


def test_signals_to_agent_and_shims(hostile_node):
    """Refused where the kernel keeps jobs apart; elsewhere the next agent makes good what a killed one left."""
    portal, runner = hostile_node
    neighbour = portal.want(attempt=900, job=900, command=NEIGHBOUR)
    portal.wait_report(neighbour, "running")
    key = attack(portal, 1, "signals")
    if runner.isolation == "auto":
        assert portal.wait_report(key, "ended")["exit_code"] == 0
        assert portal.wait_report(neighbour, "ended")["exit_code"] == 0
        assert runner.process.poll() is None
        return
    runner.process.wait(60)
    runner.start("--isolation", "off")
    assert portal.wait_report(key, "ended")["reason"] == "lost"
    assert portal.wait_report(neighbour, "ended")["reason"] == "lost"
    late = portal.want(attempt=901, job=901, command="echo still here")
    assert portal.wait_report(late, "ended")["exit_code"] == 0
    assert jobs_left(runner) == []


def test_a_job_of_the_same_account_sees_no_secret(hostile_node):
    portal, runner = hostile_node
    if runner.isolation == "off":
        pytest.skip("without isolation a job of the same account reads what the account may read; the node says so")
    key = attack(portal, 1, "peeks")
    portal.wait_report(key, "ended")
    said = portal.wait_for(lambda: (told := portal.logs.get((*key, "stdout"), b"")).endswith(b"peeked\n") and told)
    # With a view of its own there is nothing to look at; else each look was refused.
    looks = [line for line in said.splitlines() if b" environ " in line or b"secret-key" in line]
    assert [line for line in looks if not line.endswith(b"None")] == []
    assert hostile.SECRET.encode() not in said
    assert NODE_TOKEN.encode() not in said
