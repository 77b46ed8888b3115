"""A bridge to a real Slurm: pilots come as jobs wait, go when they are idle, and no trouble of Slurm loses or doubles a job."""

import signal
import time

import pytest

from tests.native.nvml import built
from tests.system.helpers.client import Tenant
from tests.system.helpers.slurm import slurm_started
from tests.system.slurm.bridges import ONE_CORE, Bridge, nodes_of_pilots

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.xdist_group("bridge")]

SPENDS_ITS_BERTH = True  # by nodes that are gone in the end


@pytest.fixture(scope="module")
def berth(berth_shared):
    return berth_shared


@pytest.fixture(scope="module")
def tenant(berth):
    return Tenant(berth)


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    with slurm_started(tmp_path_factory.mktemp("slurm"), nodes=2) as started:
        yield started


@pytest.fixture(scope="module")
def stub(tmp_path_factory):
    return built(tmp_path_factory)


@pytest.fixture(scope="module")
def bridge(berth, slurm, stub, tmp_path_factory):
    at = tmp_path_factory.mktemp("bridge") / "own"
    bridge = Bridge(berth, slurm, stub, at)
    bridge.start()
    yield bridge
    bridge.kill(signal.SIGTERM)
    for number in bridge.pilots():
        slurm.run("scancel", number)
    berth.wait(lambda: not bridge.pilots(), what="the pilots to end")


def test_pilots_come_as_jobs_wait_and_go_when_they_are_idle(bridge, berth, tenant):
    shows = "a first pilot shows what there is"
    berth.wait(lambda: nodes_of_pilots(berth, tenant), limit_s=60.0, what=shows)
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
