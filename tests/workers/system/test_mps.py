"""NVIDIA's MPS: when its daemon counts as running, what jobs are told, and that its server on a GPU is no stranger."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.workers.settings import settings_from
from tests.workers.specs import spec_make
from workers.agent.isolation import Means
from workers.agent.program import gpu_sharing_find
from workers.controls.jobenv import job_environment
from workers.parts.workspace import NO_MPS, Workplace, _mps
from workers.system.gpus import PID_FILE, mps_daemon
from workers.telemetry.beat import Readings
from workers.telemetry.sampler import GpuDetails, GpuProcess
from workers.telemetry.sampling import Running, Sampling

# A control daemon with a server, as far as this machine sees them: a process of that name, and its child.
DAEMON = """
import ctypes, subprocess, sys
ctypes.CDLL(None).prctl(15, b"nvidia-cuda-mps-control", 0, 0, 0)
server = subprocess.Popen([sys.executable, "-c", "print(1, flush=True); input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
server.stdout.readline()
print(server.pid, flush=True)
input()
server.communicate(b"\\n")
"""


@pytest.fixture
def daemon(tmp_path):
    """(the directory of its pipes, its pid, its server's pid)"""
    with subprocess.Popen([sys.executable, "-c", DAEMON], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        server = int(process.stdout.readline())
        (tmp_path / PID_FILE).write_text(f"{process.pid}\n")
        yield tmp_path, process.pid, server
        process.communicate(b"\n")


def launch_of(tmp_path, *, pipes, **spec):
    more = dict.fromkeys(("job_dir", "tmp_dir", "checkpoint_dir", "records_dir"), str(tmp_path))
    return {**spec_make(gpus=[0, 1], gpu_uuids=["GPU-a", "GPU-b"], **spec), **more, "python": "python", "mark": "m"} | {
        "virtual": False,
        "mps": pipes,
    }


def told(pipes, directory, *, mps=True, **spec):
    """What a job's environment says of MPS on a node whose daemon's pipes lie in `pipes`."""
    place = Workplace(
        storage=directory,
        walls=None,
        landlock=0,
        virtual=False,
        virtual_pace=None,
        nice=0,
        boot_id="b",
        node_grace_s=1.0,
        lease_grace_s=1.0,
        mps=pipes if mps else None,
        mps_pipes=pipes,
    )
    launch = launch_of(directory, pipes=None, **spec)
    launch["mps"] = _mps(launch, place)
    return {name: value for name, value in job_environment(launch).items() if "MPS" in name}


def test_a_job_that_shares_a_gpu_is_held_to_its_grants_by_the_daemon(daemon, tmp_path):
    pipes = daemon[0]
    assert told(
        pipes, tmp_path, gpu_compute=405, gpu_memory_mib=2048, environment={"CUDA_MPS_PIPE_DIRECTORY": "/x"}
    ) == {
        "CUDA_MPS_PIPE_DIRECTORY": str(pipes),
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "40",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=2048M,1=2048M",
    }
    assert told(pipes, tmp_path, gpu_compute=5)["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "1"
    assert "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT" not in told(pipes, tmp_path, gpu_compute=5)


def test_a_job_with_whole_gpus_and_one_that_takes_turns_stay_out_of_the_daemon(daemon, tmp_path):
    pipes = daemon[0]
    nowhere = {"CUDA_MPS_PIPE_DIRECTORY": f"{tmp_path}/no-mps"}
    assert told(pipes, tmp_path) == nowhere
    assert told(pipes, tmp_path, mps=False, gpu_compute=500, gpu_memory_mib=1) == nowhere
    assert not (tmp_path / "no-mps").exists()


def test_without_a_daemon_nothing_is_said(tmp_path):
    assert told(tmp_path / "nothing", tmp_path, gpu_compute=500) == {}
    assert NO_MPS != ""


@pytest.mark.parametrize("text", ["", "x", "-1", "0", "999999999", pytest.param(str(os.getpid()), id="a test")])
def test_a_file_that_names_no_daemon_is_none(tmp_path, text):
    (tmp_path / PID_FILE).write_text(text)
    assert isinstance(mps_daemon(tmp_path), str)


def test_a_link_in_place_of_the_file_is_not_followed(daemon, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / PID_FILE).symlink_to(tmp_path / PID_FILE)
    assert isinstance(mps_daemon(tmp_path / "other"), str)
    assert mps_daemon(tmp_path).pid == daemon[1]


def test_what_a_node_tells_of_jobs_on_one_gpu(daemon, tmp_path):
    settings = settings_from(["--url", "http://h", "--dir", str(tmp_path), "--mps-pipes", str(daemon[0])])
    real, virtual = {"gpus": [{"index": 0}], "virtual": False}, {"gpus": [{"index": 0}], "virtual": True}
    walls, pipes = gpu_sharing_find(settings, real, Means())
    assert (walls, pipes) == ([{"name": "gpus", "by": "MPS", "why": ""}], daemon[0])
    for inventory, means in ((real, Means(accounts=True)), (virtual, Means())):
        ((wall,), pipes) = gpu_sharing_find(settings, inventory, means)
        assert (wall["by"], bool(wall["why"]), pipes) == ("time slicing", True, None)
    assert gpu_sharing_find(settings, {"gpus": [], "virtual": False}, Means()) == ([], None)


def test_the_daemons_server_is_no_stranger_on_a_gpu(daemon):
    pipes, _, server = daemon
    looked = Readings(
        details=GpuDetails(processes={0: [GpuProcess(server, 30.0, 0.0), GpuProcess(os.getpid(), 5.0, 1.0)]})
    )
    for known, strangers in ((lambda: mps_daemon(pipes), [os.getpid()]), (str, [server, os.getpid()])):
        sampling = Sampling(host=None, daemon=known)
        sampling.uses([])
        sampling.second(1.0, [Running("a", (0,), None)], looked)
        assert [each["pid"] for each in sampling.outside] == strangers
