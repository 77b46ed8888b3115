"""The agent against a portal: one job's road, and what happens when either is killed, away or stale."""

from __future__ import annotations

import json
import stat
import time

from tests.workers.conftest import processes_of, wait_until


def test_runs_a_job_and_tells_its_log_and_exit_code(portal, node):
    key = portal.want(command="echo hello; echo woe >&2; exit 3")
    node.start()
    ended = portal.wait_report(key, "ended")
    assert (ended["exit_code"], ended["signal"], ended["reason"]) == (3, None, "exit")
    assert [r["state"] for r in portal.reports] == ["running", "ended"]
    assert portal.logs[*key, "stdout"] == b"hello\n"
    assert portal.logs[*key, "stderr"] == b"woe\n"
    assert stat.S_IMODE((node.directory / "node.json").stat().st_mode) == 0o600
    wait_until(lambda: json.loads((node.part(key) / "part.json").read_text())["phase"] == "closed")
    assert node.end() == 0


def test_readopts_with_the_same_pid_after_kill(portal, node):
    key = portal.want(command="echo $$; sleep 2; echo done")
    node.start()
    pid = portal.wait_report(key, "running")["pid"]
    node.kill()
    time.sleep(0.3)
    assert any(p == pid for p, _ in processes_of(node.part(key)))
    node.start()
    ended = portal.wait_report(key, "ended")
    assert (ended["pid"], ended["exit_code"]) == (pid, 0)
    assert portal.logs[*key, "stdout"].split() == [str(pid).encode(), b"done"]
    assert [r["state"] for r in portal.reports] == ["running", "ended"]
    assert "registered" not in node.log.read_text().split("part adopted")[1]


def test_sigterm_leaves_jobs_running(portal, node):
    key = portal.want(command="sleep 30")
    node.start()
    pid = portal.wait_report(key, "running")["pid"]
    assert node.end() == 0
    assert any(p == pid for p, _ in processes_of(node.part(key)))
