"""`--check`: the table for a Slurm admin, with real daemons."""

import getpass
import json
import re
import shlex
import subprocess

import pytest

from tests.system.helpers.login_node import login_node
from tests.system.helpers.slurm import GPUS, slurm_started
from workers.bridge.check import FAINT, Asked, as_json, check, must_mend, table
from workers.bridge.command import Local, Ssh
from workers.bridge.slurm import SlurmEngine

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.xdist_group("slurm_contract")]

ORDER = {
    "name": "berth-pilot-check",
    "again": False,
    "gpus": 2,
    "gpu_type": "a100",
    "cores": 1,
    "memory_mib": 100,
    "limit_s": 3600,
    "join_token": "",
}


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    with slurm_started(tmp_path_factory.mktemp("slurm")) as started:
        yield started
        started.clear()


@pytest.fixture
def asked(slurm, tmp_path):
    def make(order=None, partition="berth", runner=None, **more):
        engine = SlurmEngine(runner or Local(environ=slurm.environment), partition=partition)
        facts = {"folder": str(tmp_path / "berth"), "leave_s": 5, "portal": lambda: "", **more}
        return Asked(engine, ORDER | (order or {}), **facts)

    return make


def marks(lines):
    return {line.tried: line.mark for line in lines}


def the(lines, words):
    (line,) = (each for each in lines if words in each.tried)
    return line


def test_a_cluster_that_is_ready(asked):
    lines = check(asked())
    found = [(line.mark, line.tried, line.found) for line in lines]
    assert re.fullmatch(r"Slurm [\d.]+, cluster berthtest", the(lines, "Slurm answers").found)
    assert ("well", "the partition berth is up", "1 nodes, 16 cores") in found
    assert ("well", "GPUs have types", f"a100: {GPUS}") in found
    assert ("well", "a job would be accepted", "Slurm would take n1") in found
    assert the(lines, "sacct").mark == "warning", "this cluster has no accounting"
    assert the(lines, "compute node").found == "not tried: add --try-job"
    assert not must_mend(lines)
    text = table(lines, colours=True)
    assert len(text.splitlines()) == len(lines) + 1, "the warning has a command below it"
    assert text.splitlines()[-1].startswith(f"{FAINT}· a compute node")
    assert json.loads(json.dumps(as_json(lines)))[0]["mark"] == "well"


def test_a_job_tries_a_compute_node_and_leaves_nothing(asked, slurm, tmp_path):
    lines = check(asked(try_job=True))
    line = the(lines, "compute node")
    assert line.mark in {"well", "warning"}, line
    assert "python3" in line.found
    assert "Landlock" in line.found
    assert list((tmp_path / "berth").iterdir()) == []
    slurm.clear()


def test_a_job_that_cannot_begin_is_taken_back(asked, slurm):
    slurm.wait(slurm.submit("sleep 600", "--exclusive", "--mem=0"), "RUNNING")
    line = the(check(asked(try_job=True, patience_s=2)), "compute node")
    assert (line.mark, "is pending: Resources" in line.found or "is pending: Priority" in line.found) == (
        "warning",
        True,
    )
    slurm.clear()


@pytest.mark.parametrize(
    ("more", "tried", "mark", "found", "mend"),
    [
        ({"partition": "nope"}, "the partition", "mend", "Partition nope not found", "sinfo"),
        (
            {"order": {"gpu_type": "h100"}},
            "GPUs have types",
            "mend",
            "no node has a GPU of the type h100 (a100: 4)",
            "Gres=",
        ),
        (
            {"order": {"gpus": 9}},
            "accepted",
            "mend",
            "Requested node configuration is not available",
            "sbatch --test-only",
        ),
        ({"leave_s": 30}, "SIGTERM", "warning", "8 s after scancel", "KillWait=30"),
        ({"portal": lambda: "connection refused"}, "the portal", "mend", "connection refused", "curl"),
        ({"folder": "/proc/berth"}, "/proc/berth", "mend", "cannot be written", "chmod 700 /proc/berth"),
    ],
)
def test_each_fault_has_its_line_and_its_remedy(asked, more, tried, mark, found, mend):
    lines = check(asked(**more))
    line = the(lines, tried)
    assert line.mark == mark
    assert found in line.found
    assert mend in line.mend
    assert must_mend(lines) is (mark == "mend")


@pytest.mark.parametrize(
    ("users", "mark", "found"),
    [
        (["anna", getpass.getuser(), "anna"], "well", "jobs of 2 accounts in the last day"),
        ([getpass.getuser()], "warning", "none of another account in the last day"),
        ([], "warning", "none of another account in the last day"),
    ],
)
def test_accounting_that_hides_others_is_a_warning(asked, slurm, tmp_path, users, mark, found):
    """The test cluster has no accounting: a program in its place prints users."""
    path = tmp_path / "sacct"
    path.write_text("#!/bin/sh\n" + "".join(f"echo {user}\n" for user in users))
    path.chmod(0o755)
    environ = slurm.environment | {"PATH": f"{tmp_path}:{slurm.environment['PATH']}"}
    line = the(check(asked(runner=Local(environ=environ))), "sacct")
    assert (line.mark, line.found) == (mark, found)


def test_the_commands_that_mend_a_partition_mend_it(asked, slurm):
    slurm.run("scontrol", "update", "PartitionName=berth", "State=DOWN", "MaxTime=30")
    lines = check(asked())
    assert the(lines, "is up").found == "it is DOWN"
    assert the(lines, "minutes").found == "MaxTime is 30 minutes"
    for line in lines:
        if line.mark == "mend":
            subprocess.run(shlex.split(line.mend, comments=True), env=slurm.environment, check=True)
    lines = check(asked())
    assert not must_mend(lines), lines


def test_a_cluster_without_a_node_that_takes_jobs(asked, slurm):
    slurm.run("scontrol", "update", "nodename=n1", "state=drain", "reason=bad fan")
    line = the(check(asked()), "GPUs")
    slurm.run("scontrol", "update", "nodename=n1", "state=resume")
    assert (line.mark, line.found) == ("warning", "no node takes jobs now: n1 is idle+drain (bad fan)")


def test_a_machine_without_slurm(asked, tmp_path):
    lines = check(asked(runner=Local(environ={"SLURM_CONF": str(tmp_path / "none")}, limit_s=3)))
    assert the(lines, "Slurm answers").mark == "mend"
    assert marks(lines).keys() == {
        "Slurm answers",
        "the portal is reached",
        f"{tmp_path / 'berth'} is writable, and closed to others",
        "a compute node: Python, Landlock, the folder",
    }
    assert must_mend(lines)


def test_a_login_node_says_the_line_that_lets_the_bridge_in(asked, slurm, tmp_path):
    with login_node(tmp_path / "login", SLURM_CONF=slurm.environment["SLURM_CONF"]) as node:
        runner = Ssh(node.host, tmp_path / "ssh")
        lines = check(asked(runner=runner))
        assert "Permission denied" in lines[0].found
        command = lines[0].mend.replace("~/.ssh/authorized_keys", str(node.at / "authorized"))
        subprocess.run(["sh", "-c", command], check=True)
        lines = check(asked(runner=runner, try_job=True))
        runner.close()
        assert not must_mend(lines), table(lines)
        assert the(lines, "login node").mark == "well"

        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "other"], check=True)
        known = tmp_path / "ssh" / "known_hosts"
        theirs = (tmp_path / "other.pub").read_text().split()[1]
        known.write_text(" ".join([known.read_text().split()[0], "ssh-ed25519", theirs]) + "\n")
        lines = check(asked(runner=runner))
        assert (lines[0].mark, lines[0].found) == ("mend", "its key is another one than at first")
