"""`./berth up --demo --engine slurm`: a Slurm of its own, which begins, works and ends with the demo."""

import shutil
import subprocess

import pytest

from portal.launch.demo.slurm import PATH, slurm_environment
from tests.system.helpers.client import Tenant

pytestmark = [pytest.mark.system, pytest.mark.slow]


def listed(berth):
    words = ["squeue", "-h", "-o", "%j"]
    return subprocess.run(
        words, env=slurm_environment(berth.data / "slurm"), capture_output=True, text=True, check=True
    ).stdout.split()


def test_a_job_runs_on_gpus_of_the_demos_slurm_and_all_of_it_ends_with_the_demo(berth_once):
    if shutil.which("slurmctld", path=PATH) is None:
        pytest.skip("SKIPPED LOUDLY: no Slurm on this machine (`apt install slurmctld slurmd slurm-client`)")
    berth = berth_once(demo=True, flags=["--engine", "slurm"])
    tenant = Tenant(berth)
    berth.wait(lambda: any("-g" in each["name"] for each in nodes(berth, tenant)), limit_s=90.0, what="a first pilot")
    job = tenant.submit("sleep 600", gpus=2, gpu_types=["A100 40 GB"])
    tenant.wait_state(job, "RUNNING", limit_s=60.0)
    assert [name for name in listed(berth) if name.startswith("berth-pilot-")]
    assert tenant.job(job)["nodes"][0].startswith("gn-0")
    berth.down()
    assert not list((berth.data / "slurm/nodes").glob("*")), "pilots leave nothing"
    assert not [path for path in (berth.data / "slurm/run").glob("*.pid") if alive(path)]


def nodes(berth, tenant):
    return berth.request("/api/v1/nodes", token=tenant.token)[1]["results"]


def alive(path):
    return subprocess.run(["kill", "-0", path.read_text().strip()], capture_output=True).returncode == 0


def test_without_demo_it_is_refused(tmp_path, berth_once):
    with pytest.raises(AssertionError, match="--engine works only with --demo"):
        berth_once(demo=False, flags=["--engine", "slurm"])
