"""The real pynvml against a C stub of the driver's library: inventory, figures, and every way a GPU can fail."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.workers.conftest import ROOT

PROGRAM = """
import dataclasses, json, sys
from workers.system import log
from workers.agent.inventory import inventory_real
from workers.agent.settings import settings_from
from workers.telemetry.nvml import NvmlSampler
from workers.telemetry.sampler import GpuFailedError
log.log_setup(node="n1")
sampler = NvmlSampler()
settings = settings_from(["--url", "http://127.0.0.1:1", "--dir", "unused", "--name", "n1"])
try:
    inventory = inventory_real(settings, sampler)
except GpuFailedError as error:
    sys.exit(str(error))
samples = [sampler.sample([]), sampler.sample([])]
print(json.dumps({"inventory": inventory, "sample": {k: dataclasses.asdict(v) for k, v in samples[-1].items()}}))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("SKIPPED LOUDLY: no C compiler here, so nothing drove the real pynvml; install gcc to test NVML")
    directory = tmp_path_factory.mktemp("nvml")
    source = ROOT / "tests/native/nvml_stub.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-Wall", "-o", directory / "libnvidia-ml.so.1", source], check=True)
    return directory


def run(library, **environment):
    environment = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": str(library), **environment}
    command = [sys.executable, "-W", "error::FutureWarning", "-c", PROGRAM]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=30)


def test_two_gpus_with_all_figures(library):
    done = run(library)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["inventory"]["gpu_type"] == "NVIDIA H100 80GB HBM3"
    assert answer["inventory"]["virtual"] is False
    assert answer["inventory"]["gpus"] == [
        {"index": 0, "uuid": "GPU-stub-0", "memory_mib": 81920},
        {"index": 1, "uuid": "GPU-stub-1", "memory_mib": 81920},
    ]
    assert answer["sample"]["1"] == {"utilisation": 41.0, "memory_mib": 1001.0, "power_w": 350.5}


@pytest.mark.parametrize(("nvlinks", "gbps"), [("18", 450.0), ("0", None)])
def test_the_links_of_the_gpu_with_the_least_are_told(library, nvlinks, gbps):
    links = json.loads(run(library, NVML_STUB_NVLINK=nvlinks).stdout)["inventory"]["links"]
    assert links.pop("network_mbps") is None, "the loopback has no speed"
    assert links == {"nvlink_gbps": gbps, "pcie_generation": 4, "pcie_lanes": 16}


def test_a_failing_gpu_has_no_figures_and_is_said_once(library):
    done = run(library, NVML_STUB_BROKEN="1")
    sample = json.loads(done.stdout)["sample"]
    assert sample["0"]["utilisation"] == 40.0
    assert sample["1"] == {"utilisation": None, "memory_mib": 1001.0, "power_w": None}
    assert done.stderr.count("gpu figure cannot be read gpu=1 measure=utilisation") == 1
    assert "GPU is lost" in done.stderr


def test_no_driver_means_a_node_without_gpus(library):
    done = run(library, NVML_STUB_NO_INIT="1")
    answer = json.loads(done.stdout)
    assert (answer["inventory"]["gpus"], answer["inventory"]["gpu_type"], answer["sample"]) == ([], None, {})
    assert "no GPUs" in done.stderr


def test_no_library_means_a_node_without_gpus(tmp_path):
    if any(shutil.os.path.exists(f"/usr/lib/{d}/libnvidia-ml.so.1") for d in ("x86_64-linux-gnu", "aarch64-linux-gnu")):
        pytest.skip("this machine has the real library")
    done = run(tmp_path)
    assert json.loads(done.stdout)["inventory"]["gpus"] == []
    assert "no GPUs" in done.stderr


def test_mixed_types_are_refused_with_their_names(library):
    done = run(library, NVML_STUB_TYPES="NVIDIA A100|NVIDIA T4")
    assert done.returncode == 1
    assert "NVIDIA A100, NVIDIA T4" in done.stderr
