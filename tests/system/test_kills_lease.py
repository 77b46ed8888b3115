"""A node falls silent for longer than its lease: its job ends there before it begins elsewhere.

And the proof that this test can fail: the same on a copy of Berth whose shims do not heed their lease.
"""

import json
import os
import signal
import time

import pytest

from tests.system.helpers.client import Tenant, operator_node_action, rows
from tests.system.helpers.ledger import Ledger, alive, pids_running
from tests.system.helpers.mutation import mutated_copy

pytestmark = [pytest.mark.system, pytest.mark.slow]

LEASE = {"BERTH_LEASE_S": "8", "BERTH_LEASE_GRACE_S": "4"}


def silence(berth, ledger):
    """Stop the agent of a stubborn requeueable job, and wait until the job runs on another node.

    Returns (number, the silent node, pid of the first run). The node is drained, as an operator would: it looks well
    for 30 s, and the second run is to begin elsewhere at once.
    """
    number = ledger.submit(3000, "--stubborn", restartable=True, gpu_types=["RTX 3090"])
    (first,) = berth.wait(lambda: ledger.entries("start", number), limit_s=60, what="the first run")
    os.kill(berth.pids("agent")[first["node"]], signal.SIGSTOP)
    operator_node_action(berth, first["node"], "drain")
    again = lambda: [e for e in ledger.entries("start", number) if e["epoch"] == 2]  # noqa: E731
    (second,) = berth.wait(again, limit_s=90, what="the second run")
    assert second["node"] != first["node"]
    return number, first["node"], first["pid"]


def stale_report(berth, node, number):
    """Say, as the silent node's agent may, that the first attempt still runs; the portal must refuse it."""
    attempt, boot_id = rows(
        berth,
        "select a.key, n.boot_id from jobs_attempt a, cluster_node n where a.job_id = ? and a.epoch = 1 and n.name = ?",
        number,
        node,
    )[0]
    token = json.loads((berth.data / "nodes" / node / "node.json").read_text())["token"]
    key = {"attempt": attempt, "epoch": 1, "rank": 0}
    report = {**key, "sequence": 10**6, "state": "running", "pid": 1, "at": time.time()}
    body = {"boot_id": boot_id, "reports": [report], "holding": []}
    status, answer = berth.request("/api/agent/v1/report", method="POST", body=body, token=token)
    assert (status, [each["attempt"] for each in answer["refused"]], answer["accepted"]) == (200, [attempt], [])


@pytest.fixture(scope="module")
def berth(berth_up):
    return berth_up(demo=True, workload=False, environment=LEASE)


def test_a_silent_nodes_job_ends_there_before_it_runs_elsewhere(berth, tmp_path):
    ledger = Ledger(tmp_path, Tenant(berth))
    number, node, pid = silence(berth, ledger)
    assert ledger.violations() == []
    assert not alive(pid)
    refused = "select refused_messages from cluster_node where name = ?"
    before = rows(berth, refused, node)[0][0]
    os.kill(berth.pids("agent")[node], signal.SIGCONT)
    stale_report(berth, node, number)
    assert rows(berth, refused, node)[0][0] > before
    job = ledger.tenant.wait_state(number, "RUNNING")  # its node may tell a moment after the job wrote its first line
    assert (job["epoch"], job["requeues"]) == (2, 1)
    first = job["attempts"][-1]
    assert (first["state"], first["parts"][0]["end_reason"]) == ("NODE_FAIL", "lost")
    operator_node_action(berth, node, "resume")
    ledger.tenant.act(number, "cancel")
    ledger.check(ledger.settle())
    assert pids_running(ledger.directory) == []


def test_what_ended_well_on_a_silent_node_is_not_run_again(berth, tmp_path):
    ledger = Ledger(tmp_path, Tenant(berth))
    number = ledger.submit(2, restartable=True, gpu_types=["RTX 3090"])
    (first,) = berth.wait(lambda: ledger.entries("start", number), limit_s=60, what="its run")
    os.kill(berth.pids("agent")[first["node"]], signal.SIGSTOP)
    for node in ("rtx-01", "rtx-02"):  # nothing may begin anew before the node can tell
        operator_node_action(berth, node, "drain")
    ledger.tenant.wait_state(number, "PENDING", limit_s=90)
    os.kill(berth.pids("agent")[first["node"]], signal.SIGCONT)
    job = ledger.tenant.wait_state(number, "COMPLETED", limit_s=60)
    assert [(each["epoch"], each["state"]) for each in job["attempts"]] == [(1, "NODE_FAIL")]
    for node in ("rtx-01", "rtx-02"):
        operator_node_action(berth, node, "resume")
    ledger.check(ledger.settle())
    assert len(ledger.entries("start", number)) == 1


def test_without_the_shims_lease_this_test_would_fail(berth_once, tmp_path):
    """The server, the database and the agents are whole; still the job runs twice, and the ledger tells."""
    copy = mutated_copy(
        tmp_path / "source",
        file="workers/controls/partfiles.py",
        old='    if not launch["leased"]:\n        return False\n',
        new="    return False\n",
    )
    berth = berth_once(demo=True, workload=False, environment=LEASE | {"PYTHONPATH": copy})
    ledger = Ledger(tmp_path / "ledger", Tenant(berth))
    number, node, pid = silence(berth, ledger)
    assert alive(pid)
    assert [entry["lock"] for entry in ledger.violations()] == [f"job-{number}-0"]
    os.kill(berth.pids("agent")[node], signal.SIGCONT)
    ledger.tenant.act(number, "cancel")
    berth.wait(lambda: not pids_running(ledger.directory), limit_s=60, what="the end of both")
