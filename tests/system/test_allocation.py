"""An agent in a job of a real Slurm: it has what the job was given, and leaves with it."""

import re
import sys

import pytest

from portal.foundation.layout import SOURCE
from tests.native.nvml import built
from tests.system.helpers.client import Tenant
from tests.system.helpers.slurm import slurm_started

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.xdist_group("allocation")]

SPENDS_ITS_BERTH = True  # by a node that is gone in the end
ONE_CORE = {"cores_per_gpu": 1, "cores_exactly": True}
STUBBORN = "trap '' TERM; (while :; do sleep 1; done) & while :; do sleep 1; done"
TRAINS = """trap 'echo saved; exit 0' TERM
echo "sees $CUDA_VISIBLE_DEVICES; $(env | grep -c ^SLURM) of Slurm"
while :; do sleep 0.2; done"""

DEAF = "python3 -c 'import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)'; true"


@pytest.fixture(scope="module")
def berth(berth_shared):
    return berth_shared


@pytest.fixture(scope="module")
def tenant(berth):
    return Tenant(berth)


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    with slurm_started(tmp_path_factory.mktemp("slurm")) as started:
        yield started


@pytest.fixture(scope="module")
def stub(tmp_path_factory):
    return built(tmp_path_factory)


def pilot(berth, slurm, stub, name, *flags, asks=()):
    """Submit a job of Slurm in which an agent runs for this Berth; return Slurm's number."""
    token = re.search(r"berthjoin_\S+", berth.command("manage", "join_token").stdout)[0]
    directory = berth.data / "nodes" / name
    words = [sys.executable, "-m", "workers.agent", "--url", berth.url, "--dir", directory, "--name", name]
    words += ["--trust-tenants", "--allocation", "slurm", *flags]
    told = {"BERTH_AGENT_TOKEN": token, "LD_LIBRARY_PATH": str(stub), "NVML_STUB_COUNT": "4"}
    script = f"cd {SOURCE}\nexec {' '.join(map(str, words))}"
    return slurm.submit(script, "--cpus-per-task=2", "--mem=8000", *(asks or ["--gres=gpu:2"]), **told)


def node(tenant, name):
    status, found = tenant.berth.request(f"/api/v1/nodes/{name}", token=tenant.token)
    return found if status == 200 else {"health": "unknown"}


def wait_up(berth, slurm, tenant, number, name):
    berth.wait(
        lambda: node(tenant, name)["health"] == "up" or slurm.state(number) not in {"RUNNING", "PENDING"},
        limit_s=60.0,
        what=f"{name} to join",
    )
    assert node(tenant, name)["health"] == "up", slurm.output(number)


def test_it_has_what_the_job_was_given_and_a_cancelled_job_runs_again_at_once(berth, slurm, stub, tenant):
    stranger = slurm.submit("sleep 600", "--gres=gpu:1", "--mem=100")
    slurm.wait(stranger, "RUNNING")
    first = pilot(berth, slurm, stub, "pilot")
    wait_up(berth, slurm, tenant, first, "pilot")
    found = node(tenant, "pilot")
    assert [each["uuid"] for each in found["gpu_list"]] == ["GPU-stub-1", "GPU-stub-2"], "GPU 0 is the stranger's"
    assert (found["cores"], found["memory_mib"]) == (2, 8000), "of Slurm's 16 cores and 64 000 MiB"

    job = tenant.submit(TRAINS, gpus=2, gpu_types=[found["gpu_type"]], **ONE_CORE, restartable=True)
    assert tenant.wait_log(job, "of Slurm") == "sees GPU-stub-1,GPU-stub-2; 0 of Slurm\n"
    slurm.run("scancel", first)
    berth.wait(lambda: node(tenant, "pilot")["health"] == "dead", limit_s=60.0, what="the node to sign off")
    slurm.wait(first, "CANCELLED")
    assert "saved" in tenant.log_whole(job, "stdout")
    assert "signed off" in slurm.output(first)
    kept = tenant.job(job)
    assert (kept["state"], [each["state"] for each in kept["attempts"]]) == ("PENDING", ["PREEMPTED"])
    assert kept["requeues"] == 0

    second = pilot(berth, slurm, stub, "pilot")
    wait_up(berth, slurm, tenant, second, "pilot")
    tenant.wait_state(job, "RUNNING", limit_s=60.0)
    tenant.act(job, "cancel")
    tenant.wait_state(job, "CANCELLED")

    # Slurm signals a job's processes before the shim that watches them.
    asks = {"gpus": 1, "gpu_types": [found["gpu_type"]], **ONE_CORE, "restartable": True}
    quick = [tenant.submit(command, **asks) for command in ("sleep 600", DEAF)]
    for number in quick:
        tenant.wait_state(number, "RUNNING", limit_s=60.0)
    slurm.run("scancel", second, stranger)
    berth.wait(lambda: node(tenant, "pilot")["health"] == "dead", limit_s=60.0, what="the node to sign off")
    ended = [tenant.job(number) for number in quick]
    assert [(each["state"], each["attempts"][0]["state"]) for each in ended] == [("PENDING", "PREEMPTED")] * 2
    for number in quick:
        tenant.act(number, "cancel")


def test_it_leaves_before_the_end_that_slurm_tells(berth, slurm, stub, tenant):
    number = pilot(berth, slurm, stub, "ends", "--leave-s", "15", asks=["--gres=gpu:1", "--time=1"])
    wait_up(berth, slurm, tenant, number, "ends")
    asks = {"gpus": 1, "gpu_types": [node(tenant, "ends")["gpu_type"]], **ONE_CORE}
    long = tenant.submit("sleep 600", **asks, expected_duration_s=600)
    berth.wait(lambda: tenant.job(long)["reason"] == "nodes-close", limit_s=20.0, what="a job that is too long to wait")
    job = tenant.submit(TRAINS, **asks, restartable=True, expected_duration_s=1)
    tenant.wait_log(job, "of Slurm")
    berth.wait(lambda: node(tenant, "ends")["health"] == "dead", limit_s=90.0, what="the node to leave")
    slurm.wait(number, "COMPLETED")
    assert "saved" in tenant.log_whole(job, "stdout")
    assert tenant.job(job)["attempts"][0]["state"] == "PREEMPTED"
    for each in (job, long):
        tenant.act(each, "cancel")


def test_gpus_that_may_be_others_are_refused(berth, slurm, stub, tenant):
    """NVML shows four, Slurm says two, and its variables name different ones."""
    token = re.search(r"berthjoin_\S+", berth.command("manage", "join_token").stdout)[0]
    words = (
        f"{sys.executable} -m workers.agent --url {berth.url} --dir {berth.data}/nodes/odd --name odd --trust-tenants"
    )
    told = {"BERTH_AGENT_TOKEN": token, "LD_LIBRARY_PATH": str(stub), "NVML_STUB_COUNT": "4"}
    script = f"cd {SOURCE}\nexport CUDA_VISIBLE_DEVICES=2,3\n{words} --allocation slurm; echo code $?"
    number = slurm.submit(script, "--gres=gpu:2", "--cpus-per-task=1", "--mem=8000", **told)
    slurm.wait(number, "COMPLETED", "FAILED")
    assert "name different ones. Berth takes none that may be others'" in slurm.output(number)
    assert "code 2" in slurm.output(number)
    assert node(tenant, "odd")["health"] == "unknown"


def test_a_job_that_ignores_sigterm_is_killed_and_told_of_before_slurm_kills_all(berth, slurm, stub, tenant):
    number = pilot(berth, slurm, stub, "stubborn", asks=["--gres=gpu:1"])
    wait_up(berth, slurm, tenant, number, "stubborn")
    job = tenant.submit(
        STUBBORN, gpus=1, gpu_types=[node(tenant, "stubborn")["gpu_type"]], **ONE_CORE, restartable=True
    )
    tenant.wait_state(job, "RUNNING", limit_s=60.0)
    slurm.run("scancel", number)
    berth.wait(lambda: node(tenant, "stubborn")["health"] == "dead", limit_s=60.0, what="the node to sign off")
    assert tenant.job(job)["attempts"][0]["state"] == "PREEMPTED"
    tenant.act(job, "cancel")
