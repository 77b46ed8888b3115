"""A bridge to a real Slurm: pilots come as jobs wait, go when they are idle, and no trouble of Slurm loses or doubles a job."""

import time

import pytest

from tests.system.slurm.bridges import ONE_CORE, nodes_of_pilots

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.xdist_group("bridge")]


def test_pilots_come_as_jobs_wait_and_go_when_they_are_idle(bridge, berth, tenant):
    jobs = [tenant.submit("echo on $CUDA_VISIBLE_DEVICES; sleep 3", gpus=2, **ONE_CORE) for _ in range(4)]
    for number in jobs:
        tenant.wait_state(number, "COMPLETED", limit_s=120.0)
    assert len(nodes_of_pilots(berth, tenant)) <= 3, "--gpus-max is 6"
    berth.wait(lambda: not bridge.pilots(), limit_s=90.0, what="the pilots to be given back")
    assert not list(bridge.at.glob("nodes/*")), "a pilot leaves nothing on its node"


def test_a_cancelled_pilot_costs_its_job_no_try(bridge, berth, tenant, slurm):
    job = tenant.submit("echo begins; sleep 600", gpus=2, restartable=True, **ONE_CORE)
    tenant.wait_state(job, "RUNNING", limit_s=120.0)
    slurm.run("scancel", *bridge.pilots())
    berth.wait(lambda: len(tenant.job(job)["attempts"]) == 2, limit_s=120.0, what="a second attempt")
    tenant.wait_state(job, "RUNNING", limit_s=120.0)
    kept = tenant.job(job)
    assert (kept["requeues"], kept["attempts"][-1]["state"]) == (0, "PREEMPTED")
    tenant.act(job, "cancel")


def test_a_bridge_that_is_killed_and_a_controller_that_is_away_end_nothing(bridge, berth, tenant, slurm):
    job = tenant.submit("echo begins; sleep 55; echo done", gpus=1, **ONE_CORE)
    tenant.wait_state(job, "RUNNING", limit_s=120.0)
    time.sleep(15)  # a controller writes down what it started each few seconds
    bridge.kill()
    slurm.controller_kill()
    bridge.start()
    berth.wait(lambda: "does not answer" in bridge.log, limit_s=60.0, what="the bridge to find Slurm away")
    more = tenant.submit("true", gpus=4, **ONE_CORE)
    time.sleep(12)
    assert tenant.job(job)["state"] == "RUNNING"
    slurm.controller_start()
    tenant.wait_state(job, "COMPLETED", limit_s=120.0)
    assert [each["epoch"] for each in tenant.job(job)["attempts"]] == [1]
    tenant.wait_state(more, "COMPLETED", limit_s=120.0)
