"""Each trouble of Slurm and of the bridge, once: no job is lost, and none runs twice at a time. Jobs write a ledger outside Berth."""

import shutil
import time

import pytest

from tests.system.slurm.bridges import ONE_CORE

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.xdist_group("matrix")]

SBATCH = {
    "accepts, and its answer is lost": '{sbatch} "$@" >/dev/null\nexit 1',
    "accepts, and hangs": '{sbatch} "$@" >/dev/null\nexec sleep 60',
    "is killed with the bridge before it was sent": "kill -9 $PPID",
    "is sent, and the bridge is killed": '{sbatch} "$@"\nkill -9 $PPID',
}


def submitted(tenant, ledger, number, **more):
    return [
        tenant.submit(ledger.command(f"{place}"), gpus=2, restartable=True, **ONE_CORE, **more)
        for place in range(number)
    ]


def all_done(tenant, ledger, jobs, *, limit_s=180.0):
    for place, number in enumerate(jobs):
        tenant.wait_state(number, "COMPLETED", limit_s=limit_s)
        ledger.check(f"{place}")
        assert tenant.job(number)["failures"] == 0


@pytest.mark.parametrize("what", SBATCH)
def test_sbatch(bridge, berth, tenant, slurm, ledger, tmp_path, what):
    bridge.kill()
    slurm.clear()
    once = tmp_path / "once"
    script = SBATCH[what].format(sbatch=shutil.which("sbatch"))
    fake = tmp_path / "bin/sbatch"
    fake.parent.mkdir()
    fake.write_text(f'#!/bin/sh\nmkdir {once} 2>/dev/null || exec {shutil.which("sbatch")} "$@"\n{script}\n')
    fake.chmod(0o755)
    bridge.start(path=str(fake.parent))
    jobs = submitted(tenant, ledger, 1)
    berth.wait(once.exists, limit_s=60.0, what="an order to be submitted")
    if "bridge" in what:
        bridge.process.wait(30)
        bridge.start()
    all_done(tenant, ledger, jobs)
    bridge.kill()
    bridge.start()


@pytest.mark.parametrize("after_s", [1, 15])
def test_a_controller_that_is_killed_after_a_start(bridge, berth, tenant, slurm, ledger, after_s):
    slurm.clear()
    jobs = submitted(tenant, ledger, 2)
    berth.wait(bridge.pilots, limit_s=120.0, what="a pilot")
    time.sleep(after_s)
    slurm.controller_kill()
    time.sleep(2)
    slurm.controller_start()
    all_done(tenant, ledger, jobs, limit_s=400.0)


def test_cancelled_with_each_signal(bridge, berth, tenant, slurm, ledger):
    jobs = submitted(tenant, ledger, 1)
    for flags in ([], ["--signal=TERM", "--full"], ["--signal=INT"], ["--signal=USR1", "--batch"]):
        tenant.wait_state(jobs[0], "RUNNING", limit_s=120.0)
        slurm.run("scancel", *flags, *bridge.pilots())
        time.sleep(3)
    all_done(tenant, ledger, jobs)


def test_a_drained_node_and_an_admins_own_jobs_between(bridge, berth, tenant, slurm, ledger):
    jobs = submitted(tenant, ledger, 3)
    tenant.wait_state(jobs[0], "RUNNING", limit_s=120.0)
    slurm.run("scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=fan")
    own = [slurm.submit("sleep 20", "--gres=gpu:1", "--mem=100", "-w", "n2") for _ in range(2)]
    all_done(tenant, ledger, jobs)
    slurm.run("scontrol", "update", "NodeName=n1", "State=RESUME")
    assert [slurm.state(number) for number in own] != []


def test_a_slurmd_that_stays_away_ends_no_job(bridge, berth, tenant, slurm, ledger):
    jobs = submitted(tenant, ledger, 1)
    tenant.wait_state(jobs[0], "RUNNING", limit_s=120.0)
    for name in ("n1", "n2"):
        slurm.slurmd_kill(name)
    all_done(tenant, ledger, jobs)
    for name in ("n1", "n2"):
        slurm.slurmd_start(name)
