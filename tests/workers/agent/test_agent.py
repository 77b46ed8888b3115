"""The agent against a portal: one job's road, and what happens when either is killed, away or stale."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time

import pytest

from tests.remains import processes_of
from tests.workers.conftest import ROOT, command_lines, wait_until
from workers.engines.process import ProcessEngine

pytestmark = pytest.mark.system  # agents and jobs as processes of their own, waited for


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


def test_killed_between_claim_and_first_report_starts_once(portal, node):
    portal.swallow_reports = True
    key = portal.want(command='echo once >> "$BERTH_CHECKPOINT_DIR/starts"; sleep 1.5')
    node.start()
    wait_until((node.part(key) / "job.json").exists)
    node.kill()
    portal.swallow_reports = False
    node.start()
    assert portal.wait_report(key, "ended")["exit_code"] == 0
    assert (node.directory / "storage/checkpoints/1/starts").read_text() == "once\n"


def test_killed_right_after_spawning_the_shim_starts_once(portal, node):
    """The journal says `starting` and no shim has shown itself: the next agent starts one, and a late one gives way."""
    key = portal.want(command='echo once >> "$BERTH_CHECKPOINT_DIR/starts"; sleep 1')
    portal.change(key, go=False)
    node.start()
    portal.wait_report(key, "prepared")
    node.kill()
    record = node.part(key) / "part.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "phase": "starting"}))
    late = ProcessEngine()
    node.start()
    late.start(node.part(key))
    assert portal.wait_report(key, "ended")["exit_code"] == 0
    assert (node.directory / "storage/checkpoints/1/starts").read_text() == "once\n"
    wait_until(lambda: late.reap() or not late._children)


def test_shim_killed_is_lost_and_leaves_nothing(portal, node):
    command = "setsid sleep 301 & (setsid env -i sleep 302 &) ; sleep 303"
    key = portal.want(command=command)
    node.start()
    portal.wait_report(key, "running")
    wait_until(lambda: len([p for p, c in processes_of(node.part(key)) if "sleep" in c]) >= 2)
    os.kill(json.loads((node.part(key) / "shim.json").read_text())["pid"], signal.SIGKILL)
    ended = portal.wait_report(key, "ended")
    assert (ended["reason"], ended["exit_code"]) == ("lost", None)
    assert processes_of(node.part(key)) == []
    assert not [c for c in command_lines() if c.startswith(("sleep 301", "sleep 302", "sleep 303"))]


def test_shim_and_agent_killed_together_are_found_at_the_next_start(portal, node):
    key = portal.want(command="setsid sleep 304 & sleep 305")
    node.start()
    portal.wait_report(key, "running")
    node.kill()
    os.kill(json.loads((node.part(key) / "shim.json").read_text())["pid"], signal.SIGKILL)
    node.start()
    assert portal.wait_report(key, "ended")["reason"] == "lost"
    assert processes_of(node.part(key)) == []


def test_silence_past_the_lease_kills_the_job(portal, node):
    portal.hello["lease_s"] = 2
    leased = portal.want(command="sleep 30", lease=True)
    unleased = portal.want(attempt=2, job=2, command="sleep 30")
    node.start()
    portal.wait_report(leased, "running")
    portal.wait_report(unleased, "running")
    time.sleep(2.5)  # renewed meanwhile, so it runs on
    assert portal.report_of(leased, "ended") is None
    portal.away = True
    wait_until((node.part(leased) / "result.json").exists)
    portal.away = False
    ended = portal.wait_report(leased, "ended")
    assert (ended["reason"], ended["signal"]) == ("lease", signal.SIGTERM)
    assert portal.report_of(unleased, "ended") is None


def test_a_stopped_agent_does_not_keep_a_lease_alive(portal, node):
    portal.hello["lease_s"] = 1.5
    key = portal.want(command="sleep 30", lease=True)
    node.start()
    portal.wait_report(key, "running")
    os.kill(node.process.pid, signal.SIGSTOP)
    wait_until((node.part(key) / "result.json").exists)
    os.kill(node.process.pid, signal.SIGCONT)
    assert portal.wait_report(key, "ended")["reason"] == "lease"


def test_no_lease_no_start(portal, node):
    """A list may be old: without a lease from the portal, had after it, a leased part does not begin."""
    portal.swallow_reports = True
    key = portal.want(command="true", lease=True)
    node.start()
    wait_until((node.part(key) / "launch.json").exists)
    time.sleep(0.7)
    assert not (node.part(key) / "shim.json").exists()
    portal.swallow_reports = False
    assert portal.wait_report(key, "ended")["exit_code"] == 0


def test_stop_leaves_nothing_of_a_job_that_ignores_it(portal, node):
    script = "trap '' TERM; (setsid sh -c \"trap '' TERM; sleep 311; sleep 311\" &) ; while :; do sleep 312; done"
    key = portal.want(command=script)
    node.start()
    portal.wait_report(key, "running")
    wait_until(lambda: any(c.startswith("sleep 311") for c in command_lines()))
    portal.stop(key, grace_s=0.5)
    ended = portal.wait_report(key, "ended")
    assert (ended["reason"], ended["signal"], ended["detail"]) == ("stopped", signal.SIGKILL, "cancel")
    assert ended["overran"], "it outlived its grace"
    assert processes_of(node.part(key)) == []
    assert not [c for c in command_lines() if c.startswith(("sleep 311", "sleep 312"))]


def test_stop_before_it_came_here_is_answered(portal, node):
    key = portal.want(command="true")
    portal.stop(key)
    node.start()
    ended = portal.wait_report(key, "ended")
    assert (ended["reason"], ended["pid"]) == ("stopped", None)
    assert portal.spec_calls == []


def test_what_is_in_no_list_is_stopped_without_a_report(portal, node):
    key = portal.want(command="sleep 30")
    node.start()
    portal.wait_report(key, "running")
    portal.forget(key)
    wait_until(lambda: json.loads((node.part(key) / "part.json").read_text())["phase"] == "closed")
    assert processes_of(node.part(key)) == []
    assert portal.report_of(key, "ended") is None


def test_multi_node_part_waits_for_go(portal, node):
    key = portal.want(command="true", go=False)
    node.start()
    portal.wait_report(key, "prepared")
    time.sleep(0.5)
    assert not (node.part(key) / "shim.json").exists()
    portal.change(key, go=True)
    assert portal.wait_report(key, "ended")["exit_code"] == 0
    assert [r["state"] for r in portal.reports] == ["prepared", "running", "ended"]


def newer_takes_over(portal, older, *, command):
    """The list names a newer attempt of the job in place of the older one; it ends well."""
    with portal.lock:
        del portal.wanted[older]
    newer = portal.want(attempt=2, command=command)
    assert portal.wait_report(newer, "ended")["exit_code"] == 0


def test_a_newer_attempt_waits_until_the_older_is_dead(portal, node):
    older = portal.want(attempt=1, command="trap '' TERM; while :; do sleep 321; done")
    node.start()
    portal.wait_report(older, "running")
    newer_takes_over(portal, older, command="! pgrep -f 'sleep 32[1]'")
    assert (node.part(older) / "result.json").exists()


def test_one_that_only_waited_gives_way_to_a_newer_attempt(portal, node):
    """It is closed for two reasons at once, the list and the newer attempt: the second finds it void."""
    older = portal.want(attempt=1, command="true", go=False)
    node.start()
    portal.wait_report(older, "prepared")
    newer_takes_over(portal, older, command="true")
    assert node.process.poll() is None


def test_a_stale_epoch_is_not_begun(portal, node):
    newer = portal.want(epoch=2, command="sleep 30")
    node.start()
    portal.wait_report(newer, "running")
    with portal.lock:
        portal.wanted[1, 1, 0] = {**portal.wanted[newer], "epoch": 1}
        portal._changed()
    time.sleep(0.7)
    assert not node.part((1, 1, 0)).exists()


def test_log_goes_on_where_the_portal_stands(portal, node):
    key = portal.want(command="echo 0123456789; sleep 1.5; echo more; sleep 1")
    node.start()
    portal.wait_for(lambda: portal.logs.get((*key, "stdout")))
    node.kill()
    portal.logs[*key, "stdout"] = b"0123"  # the portal lost what it had not written
    node.start()
    portal.wait_report(key, "ended")
    portal.wait_for(lambda: portal.logs[*key, "stdout"] == b"0123456789\nmore\n")
    assert any(not taken for _, taken in portal.log_offsets)


def test_log_past_the_limit_is_neither_sent_nor_kept(portal, node):
    key = portal.want(
        command="head -c 300000 /dev/zero; sleep 1.5; head -c 1000 /dev/zero; sleep 1.2", log_limit_bytes=100_000
    )
    node.start()
    portal.wait_report(key, "ended")
    assert len(portal.logs[*key, "stdout"]) == 100_000
    assert (node.part(key) / "stdout").stat().st_size <= 101_000


def test_reports_wait_for_an_absent_portal_and_never_repeat_a_sequence(portal, node):
    key = portal.want(command="sleep 0.5; exit 4")
    node.start()
    portal.wait_report(key, "running")
    portal.away = True
    wait_until(lambda: json.loads((node.part(key) / "part.json").read_text())["phase"] == "ended")
    node.kill()
    node.start()
    time.sleep(0.5)
    portal.away = False
    assert portal.wait_report(key, "ended")["exit_code"] == 4
    assert [r["sequence"] for r in portal.reports] == [1, 2]
    assert portal.refused == []


def test_a_second_tenant_is_refused_unless_tenants_trust_each_other(portal, node):
    first = portal.want(command="true")
    node.start("--accounts", "off")
    portal.wait_report(first, "ended")
    second = portal.want(attempt=2, job=2, tenant="globex", tenant_id=8)
    ended = portal.wait_report(second, "ended")
    assert ended["reason"] == "tenant_not_trusted"
    assert "acme" in ended["detail"]
    node.end()
    node.start("--accounts", "off", BERTH_TRUST_TENANTS="1")
    third = portal.want(attempt=3, job=3, tenant="globex", tenant_id=8)
    assert portal.wait_report(third, "ended")["exit_code"] == 0
    assert [i["trusts_tenants"] for i in portal.inventories] == [False, False, True]


def test_a_revoked_token_is_said_and_starts_nothing(portal, node):
    first = portal.want(command="sleep 30")
    node.start()
    portal.wait_report(first, "running")
    portal.revoked = True
    second = portal.want(attempt=2, job=2)
    wait_until(lambda: "refuses this node's token" in node.log.read_text())
    time.sleep(0.5)
    assert not node.part(second).exists()
    portal.revoked = False
    assert portal.wait_report(second, "ended")["exit_code"] == 0


def test_keep_jobs_outlasts_the_lease_and_the_next_agent_takes_over(portal, node):
    portal.hello["lease_s"] = 1.5
    key = portal.want(command="sleep 30", lease=True)
    node.start()
    pid = portal.wait_report(key, "running")["pid"]
    kept = node.offline("--keep-jobs", "1")
    assert json.loads(kept.stdout) == {"kept": 1, "hours": 1.0}
    assert node.process.wait(5) == 0
    time.sleep(2)  # the lease is over
    node.start()
    wait_until(lambda: not (node.part(key) / "maintenance.json").exists())
    portal.stop(key)
    ended = portal.wait_report(key, "ended")
    assert (ended["pid"], ended["reason"]) == (pid, "stopped")


def test_stop_all_ends_agent_and_jobs_and_the_next_agent_tells(portal, node):
    running = portal.want(command="trap '' TERM; while :; do sleep 331; done")
    waiting = portal.want(attempt=2, job=2, go=False)
    node.start()
    portal.wait_report(running, "running")
    portal.wait_report(waiting, "prepared")
    answer = node.offline("--stop-all", "--grace", "0.3")
    assert json.loads(answer.stdout) == {"stopped": 1}
    assert processes_of(node.directory) == []
    node.start()
    assert portal.wait_report(running, "ended")["reason"] == "stopped"
    assert portal.wait_report(waiting, "ended")["reason"] == "stopped"


def test_only_one_agent_a_directory(portal, node):
    node.start()
    portal.wait_for(lambda: portal.inventories)
    second = subprocess.run(
        [sys.executable, "-m", "workers.agent", "--url", portal.url, "--dir", str(node.directory)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    assert second.returncode == 1
    assert f"(pid {node.process.pid}) already serves" in second.stderr


def test_what_cannot_start_says_why(portal, node):
    escape = portal.want(attempt=1, job=1, working_directory="../../etc")
    absent = portal.want(attempt=2, job=2, working_directory="/nowhere/at/all")
    outside = portal.want(attempt=3, job=3, files={"../x": ""})
    node.start()
    details = {key: portal.wait_report(key, "ended") for key in (escape, absent, outside)}
    assert {d["reason"] for d in details.values()} == {"start_failed"}
    assert "working_directory" in details[escape]["detail"]
    assert "/nowhere/at/all" in details[absent]["detail"]
    assert "'../x'" in details[outside]["detail"]


# A portal that was restored from a backup


def test_an_end_that_the_portal_forgot_is_told_again_with_its_log(portal, node):
    key = portal.want(command="echo hello; exit 3")
    node.start()
    first = portal.wait_report(key, "ended")
    wait_until(lambda: json.loads((node.part(key) / "part.json").read_text())["phase"] == "closed")
    portal.restore(key, log=b"he")
    again = portal.wait_report(key, "ended")
    told = lambda report: {k: report[k] for k in ("pid", "at", "exit_code", "signal", "reason", "detail")}  # noqa: E731
    assert told(again) == told(first)
    assert again["sequence"] > first["sequence"]
    portal.wait_for(lambda: portal.logs[*key, "stdout"] == b"hello\n")
    assert portal.spec_calls == ["1"], "it did not begin again"
    wait_until(lambda: json.loads((node.part(key) / "part.json").read_text())["phase"] == "closed")


def test_a_cancel_of_what_ended_in_the_lost_time_is_answered_by_the_next_agent_too(portal, node):
    key = portal.want(command="true")
    node.start()
    portal.wait_report(key, "ended")
    node.end()
    portal.restore(key, action="stop", stop_reason="cancel")
    node.start()
    assert portal.wait_report(key, "ended")["exit_code"] == 0


def test_what_runs_is_told_again_to_a_portal_that_thinks_it_starts(portal, node):
    key = portal.want(command="sleep 30")
    node.start()
    pid = portal.wait_report(key, "running")["pid"]
    portal.restore(key)
    assert portal.wait_report(key, "running")["pid"] == pid
    portal.restore(key, state="prepared")
    assert portal.wait_report(key, "running")["pid"] == pid


def test_a_name_that_is_another_jobs_here_is_lost_at_once(portal, node):
    """Ids of before there were keys, counted anew: the part is refused, and the record of the other job stays."""
    key = portal.want(job=1, command="echo of job one")
    node.start()
    portal.wait_report(key, "ended")
    # Until the agent has heard that its report was taken it would tell of job one's end again.
    wait_until(lambda: json.loads((node.part(key) / "part.json").read_text())["reports"] == [], within_s=60)
    portal.reports.clear()
    portal.sequences.clear()
    assert portal.want(job=2, command="echo of job two") == key
    lost = portal.wait_report(key, "ended")
    assert (lost["reason"], lost["exit_code"]) == ("lost", None)
    assert "another job" in lost["detail"]
    assert json.loads((node.part(key) / "part.json").read_text())["job"] == 1
    assert portal.spec_calls == ["1"], "nothing of it began"


def test_what_the_portal_forgot_is_named_until_it_is_dead_and_keeps_its_gpus_so_long(portal, node):
    portal.hello["grace_s"] = 3
    old = portal.want(command="trap '' TERM; sleep 30", gpus=[0], gpu_uuids=["x"])
    node.start()
    portal.wait_report(old, "running")
    held = []
    exchange = portal.report
    portal.report = lambda body: held.append([p["attempt"] for p in body["holding"]]) or exchange(body)
    portal.swallow_reports = True  # else the answer to a report says to stop at once, without the grace
    portal.forget(old)
    new = portal.want(attempt=2, job=2, command="true", gpus=[0], gpu_uuids=["x"])

    def is_dead():
        new_began = node.part(new).exists()  # looked at first: what began after the old one's death began rightly
        alive = processes_of(node.part(old))
        assert not (new_began and alive), "its GPU was not free"
        return not alive

    wait_until(is_dead)
    portal.swallow_reports = False
    assert portal.wait_report(new, "ended")["exit_code"] == 0
    assert held[-1] == []


def test_a_part_that_comes_back_into_the_list_tells_its_end(portal, node):
    """Dropped for a list from before the restore, or from after it: whichever comes last is right."""
    portal.hello["grace_s"] = 3
    key = portal.want(command="trap '' TERM; echo deaf; sleep 30")
    node.start()
    portal.wait_for(lambda: portal.logs.get((*key, "stdout")))  # from now on it does not hear SIGTERM
    portal.swallow_reports = True
    portal.forget(key)
    wait_until(lambda: json.loads((node.part(key) / "part.json").read_text())["dropped"])
    portal.restore(key, state="running")
    portal.swallow_reports = False
    ended = portal.wait_report(key, "ended")
    assert (ended["reason"], ended["signal"]) == ("stopped", signal.SIGKILL)


def test_a_good_end_is_told_though_the_part_was_closed_before(portal, node):
    """As lost: its node had been away. The agent has seen the end, and waits until the portal has the rest of the log."""
    answer = portal.answer

    def slowly(method, path, *rest):
        time.sleep(0.7 if path.startswith("log") else 0)
        return answer(method, path, *rest)

    portal.answer = slowly
    key = portal.want(command="sleep 0.5; echo last")
    node.start()
    wait_until((node.part(key) / "result.json").exists)
    portal.forget(key)
    portal.wait_for(lambda: [each for each in portal.refused if each["state"] == "ended"])
    wait_until(lambda: json.loads((node.part(key) / "part.json").read_text())["phase"] == "closed")


def test_after_an_outage_the_whole_list_is_asked_for(portal, node):
    """The number of revisions may be the same as before and say other things."""
    portal.want(command="sleep 30")
    node.start()
    portal.wait_report(("1", 1, 0), "running")
    revision = portal.revision
    portal.away = True
    time.sleep(0.5)
    key = portal.want(attempt=2, job=2, command="true")
    portal.revision = revision
    portal.away = False
    assert portal.wait_report(key, "ended")["exit_code"] == 0


def test_what_somebody_closed_is_opened_again_and_told(portal, node):
    node.log = node.directory.with_suffix(".log")  # an ordinary account could not open it in a closed directory
    key = portal.want(command="sleep 60")
    node.start()
    portal.wait_report(key, "running")
    for path in (node.part(key) / "shim.json", node.part(key), node.directory / "parts", node.directory):
        path.chmod(0)
    wait_until(lambda: all(os.access(p, os.R_OK | os.W_OK) for p in (node.directory, node.part(key))))
    wait_until(lambda: all(p.stat().st_mode & 0o600 == 0o600 for p in (node.directory, node.part(key) / "shim.json")))
    portal.wait_for(lambda: any(problem["subject"] == "modes" for problem in portal.problems))
    portal.stop(key)
    assert portal.wait_report(key, "ended")["reason"] == "stopped"
    node.end()
    for path in (
        node.directory / "node.json",
        node.directory,
    ):  # its owner could not reach the file below the directory
        path.chmod(0)
    node.start()
    later = portal.want(attempt=2, job=2, command="true")
    assert portal.wait_report(later, "ended")["exit_code"] == 0
    assert (node.directory / "node.json").stat().st_mode & 0o777 == 0o600


def test_it_says_from_when_on_its_jobs_are_stopped_and_says_so_again_when_the_end_is_moved(portal, node, tmp_path):
    end, squeue = tmp_path / "end", tmp_path / "squeue"
    squeue.write_text(f"#!/bin/sh\ncat {end}\n")
    squeue.chmod(0o755)
    first, moved = int(time.time()) + 14, int(time.time()) + 100_000
    end.write_text(f"{first}\n")
    environment = {"SLURM_JOB_ID": "71", "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    node.start("--allocation", "slurm", "--leave-s", "5", **environment)
    portal.wait_for(lambda: len(portal.inventories) > 1)
    end.write_text(f"{moved}\n")
    portal.wait_for(lambda: portal.inventories[-1].get("ends_at") == moved - 5)
    assert {each["ends_at"] for each in portal.inventories} == {first - 5, moved - 5}
    assert portal.health["findings"] == []


def test_on_a_machine_of_its_own_it_says_no_end(portal, node):
    node.start()
    portal.wait_for(lambda: len(portal.inventories) > 1)
    assert not any("ends_at" in each for each in portal.inventories)
