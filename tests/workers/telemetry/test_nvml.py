"""The real pynvml against a C stub of the driver's library: inventory, figures, and every way a GPU can fail."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.native.nvml import built
from tests.workers.conftest import ROOT

PROGRAM = """
import dataclasses, json, sys
from workers.system import log
from workers.agent.inventory import inventory_real
from tests.workers.settings import settings_from
from workers.telemetry.nvml import NvmlSampler
log.log_setup(node="n1")
sampler = NvmlSampler()
settings = settings_from(["--url", "http://127.0.0.1:1", "--dir", "unused", "--name", "n1"])
inventory = inventory_real(settings, sampler)
looks = [sampler.read_details([]), sampler.read_details([]), sampler.read_details([])]
last = dataclasses.asdict(looks[-1])
fast = {k: dataclasses.asdict(v) for k, v in sampler.sample([]).items()}
troubles = [dataclasses.asdict(each) for look in looks for each in look.troubles]
print(json.dumps({"inventory": inventory, "sample": last["samples"], "fast": fast, "processes": last["processes"],
                  "troubles": troubles, "trouble": sampler.trouble()}))
"""


ALL = {
    "utilisation": 41.0,
    "memory_mib": 1001.0,
    "power_w": 350.5,
    "pcie_tx_mb_s": 1.024,
    "pcie_rx_mb_s": 2.048,
    "energy_j": 123456.789,
    "temperature_c": 61.0,
    "clock_mhz": 1980.0,
    "memory_clock_mhz": 2619.0,
    "throttle": 4.0,
    "ecc_corrected": 3.0,
    "ecc_uncorrected": 0.0,
}
"""What the stub says of GPU 1, the older PCIe call's kilobytes being 1 024 bytes."""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return built(tmp_path_factory)


@pytest.fixture(scope="module")
def old_library(tmp_path_factory):
    return built(tmp_path_factory, "-DOLD_DRIVER")


def run(library, program=PROGRAM, **environment):
    environment = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": str(library), **environment}
    command = [sys.executable, "-W", "error::FutureWarning", "-c", program]
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
    assert answer["sample"]["1"] == ALL
    assert answer["fast"]["1"] == dict.fromkeys(ALL) | {"utilisation": 41.0, "memory_mib": 1001.0, "power_w": 350.5}
    assert (answer["troubles"], answer["trouble"], answer["processes"]) == ([], None, {"0": [], "1": []})


def test_functions_that_an_old_driver_lacks_give_no_figure_and_are_no_trouble(old_library):
    answer = json.loads(run(old_library).stdout)
    known = {"utilisation": 41.0, "memory_mib": 1001.0, "power_w": 350.5, "temperature_c": 61.0}
    known |= {"clock_mhz": 1980.0, "memory_clock_mhz": 2619.0}
    assert answer["sample"]["1"] == dict.fromkeys(ALL) | known
    assert (answer["troubles"], answer["processes"]) == ([], {}), "who uses it is not known"


def test_what_the_driver_keeps_of_a_gpus_memory_is_nobodys(library, old_library):
    """An idle H100 of driver 580 keeps 480 MiB: no job can have them, and nobody uses them."""
    answer = json.loads(run(library, NVML_STUB_RESERVED="480").stdout)
    assert [gpu["memory_mib"] for gpu in answer["inventory"]["gpus"]] == [81920 - 480] * 2
    assert (answer["sample"]["1"]["memory_mib"], answer["fast"]["1"]["memory_mib"]) == (1001.0, 1001.0)
    older = json.loads(run(old_library, NVML_STUB_RESERVED="480").stdout)
    assert (older["inventory"]["gpus"][1]["memory_mib"], older["sample"]["1"]["memory_mib"]) == (81920, 1481.0)


def test_pcie_counters_are_used_where_they_cannot_wrap_unseen(library):
    wide = json.loads(run(library, NVML_STUB_PCIE="64").stdout)["sample"]["0"]
    assert wide["pcie_tx_mb_s"] > 0
    assert wide["pcie_tx_mb_s"] not in {ALL["pcie_tx_mb_s"], ALL["pcie_rx_mb_s"]}
    narrow = json.loads(run(library, NVML_STUB_PCIE="32").stdout)["sample"]["0"]
    assert (narrow["pcie_tx_mb_s"], narrow["pcie_rx_mb_s"]) == (ALL["pcie_tx_mb_s"], ALL["pcie_rx_mb_s"])


def test_processes_on_gpus_are_told_with_their_memory_and_use(library, tmp_path):
    (tmp_path / "processes").write_text("0 77 2048 35\n0 78 10 5\n")
    answer = json.loads(run(library, NVML_STUB_DIR=str(tmp_path)).stdout)
    assert answer["processes"] == {
        "0": [
            {"pid": 77, "memory_mib": 2048.0, "utilisation": 35.0},
            {"pid": 78, "memory_mib": 10.0, "utilisation": 5.0},
        ],
        "1": [],
    }


def test_an_xid_is_told_once(library, tmp_path):
    (tmp_path / "xid").write_text("1 79")
    answer = json.loads(run(library, NVML_STUB_DIR=str(tmp_path)).stdout)
    assert answer["troubles"] == [{"index": 1, "check": "xid", "detail": "", "code": 79}]


def test_a_gpu_that_fell_off_the_bus_has_no_figures_and_is_trouble(library, tmp_path):
    (tmp_path / "lost").write_text("1")
    answer = json.loads(run(library, NVML_STUB_DIR=str(tmp_path)).stdout)
    assert [gpu["index"] for gpu in answer["inventory"]["gpus"]] == [0], "the other one's jobs go on"
    assert answer["sample"]["1"] == dict.fromkeys(ALL)
    assert answer["troubles"][0] == {"index": 1, "check": "nvml", "detail": "GPU is lost", "code": 0}


def test_memory_errors_and_heat_are_trouble(library, tmp_path):
    (tmp_path / "ecc").write_text("2")
    (tmp_path / "hot").write_text("90")
    troubles = json.loads(run(library, NVML_STUB_DIR=str(tmp_path)).stdout)["troubles"]
    assert {(each["index"], each["check"], each["code"]) for each in troubles} == {(0, "ecc", 2), (0, "temperature", 0)}


def test_a_driver_of_another_version_than_its_library_is_trouble_and_a_node_without_gpus(library):
    answer = json.loads(run(library, NVML_STUB_NO_INIT="mismatch").stdout)
    assert answer["inventory"]["gpus"] == []
    assert "different versions" in answer["trouble"]


HUNG = """
import asyncio, json
from workers.agent import sources
from tests.workers.settings import settings_from
from workers.system import log
from workers.system.filework import FileWork
log.log_setup(node="n1")
sources.DRIVER_S = 0.2
settings = settings_from(["--url", "http://127.0.0.1:1", "--dir", "unused", "--name", "n1"])
found, inventory = asyncio.run(sources.sources_for(settings, FileWork()))
print(json.dumps({"gpus": inventory["gpus"], "trouble": found.sampler.trouble(), "cores": inventory["cores"]}))
"""


def test_a_driver_that_hangs_at_the_start_does_not_keep_the_agent_from_its_jobs(library):
    """It renews their leases: an agent that was started again beside a hung driver lost them all."""
    answer = json.loads(run(library, HUNG, NVML_STUB_NO_INIT="hang").stdout)
    assert answer["gpus"] == []
    assert answer["trouble"] == "The GPUs' driver has not answered for 0.2 s."
    assert answer["cores"] > 0


@pytest.mark.parametrize(("nvlinks", "gbps"), [("18", 450.0), ("0", None)])
def test_the_links_of_the_gpu_with_the_least_are_told(library, nvlinks, gbps):
    links = json.loads(run(library, NVML_STUB_NVLINK=nvlinks).stdout)["inventory"]["links"]
    assert links.pop("network_mbps") is None, "the loopback has no speed"
    assert links == {"nvlink_gbps": gbps, "pcie_generation": 4, "pcie_lanes": 16}


def test_a_failing_gpu_has_no_figures_and_is_said_once(library):
    done = run(library, NVML_STUB_BROKEN="1")
    sample = json.loads(done.stdout)["sample"]
    assert sample["0"]["utilisation"] == 40.0
    assert sample["1"] == ALL | {"utilisation": None, "power_w": None}
    assert {(each["index"], each["check"]) for each in json.loads(done.stdout)["troubles"]} == {(1, "nvml")}
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


def test_of_mixed_types_the_most_frequent_is_the_node_s_and_the_others_say_theirs(library):
    mixed = {"NVML_STUB_TYPES": "NVIDIA T4|NVIDIA A100", "NVML_STUB_COUNT": "3"}
    answer = json.loads(run(library, **mixed).stdout)
    assert answer["inventory"]["gpu_type"] == "NVIDIA A100"
    assert [gpu.get("gpu_type") for gpu in answer["inventory"]["gpus"]] == ["NVIDIA T4", None, None]
    assert set(answer["sample"]) == {"0", "1", "2"}


def test_instances_of_a_gpu_that_its_operator_cut_are_gpus_of_their_own(library):
    done = run(library, NVML_STUB_MIG="2", NVML_STUB_NVLINK="18")
    answer = json.loads(done.stdout)
    assert answer["inventory"]["gpu_type"] == "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "of which there are most"
    assert answer["inventory"]["gpus"] == [
        {"index": 64, "uuid": "MIG-stub-0", "memory_mib": 10240},
        {"index": 66, "uuid": "MIG-stub-2", "memory_mib": 10240},
        {"index": 1, "uuid": "GPU-stub-1", "memory_mib": 81920, "gpu_type": "NVIDIA H100 80GB HBM3"},
    ]
    assert answer["sample"]["66"] == dict.fromkeys(ALL) | {"memory_mib": 1002.0}, "the driver tells nothing else"
    assert answer["fast"]["66"] == answer["sample"]["66"]
    assert answer["sample"]["1"] == ALL
    assert answer["troubles"] == []
    assert "cannot be" not in done.stderr, "what is refused for all instances is not asked"
    assert answer["inventory"]["links"]["nvlink_gbps"] == 450.0, "the whole GPU's"


def test_instances_of_different_profiles_are_of_different_types(library):
    mixed = {"NVML_STUB_MIG": "3", "NVML_STUB_PROFILES": "3g.40gb|1g.10gb|1g.10gb+me", "NVML_STUB_COUNT": "1"}
    found = json.loads(run(library, **mixed).stdout)["inventory"]
    whole = "NVIDIA H100 80GB HBM3"
    types = [gpu.get("gpu_type", found["gpu_type"]) for gpu in found["gpus"]]
    assert types == [f"{whole} MIG 3g.40gb", f"{whole} MIG 1g.10gb", f"{whole} MIG 1g.10gb+me"]
    assert [gpu["memory_mib"] for gpu in found["gpus"]] == [40960, 10240, 10240]
    assert found["links"] == {"nvlink_gbps": None, "pcie_generation": None, "pcie_lanes": None, "network_mbps": None}


def test_an_instance_with_its_gpus_name_is_not_taken_for_the_gpu(library):
    found = json.loads(run(library, NVML_STUB_MIG="1", NVML_STUB_PROFILES="-").stdout)["inventory"]
    types = [gpu.get("gpu_type", found["gpu_type"]) for gpu in found["gpus"]]
    assert types == ["NVIDIA H100 80GB HBM3 MIG 1c.2g.10gb", "NVIDIA H100 80GB HBM3"]


def test_a_gpu_in_mig_mode_without_instances_is_left_out_and_said(library):
    done = run(library, NVML_STUB_MIG="0")
    assert [gpu["index"] for gpu in json.loads(done.stdout)["inventory"]["gpus"]] == [1]
    assert "MIG mode without instances" in done.stderr


def test_memory_of_processes_on_a_shared_gpu_is_told_by_process(library, tmp_path):
    """What the grant of a part is held against, from the real pynvml."""
    (tmp_path / "processes").write_text("1 4242 3000 20\n1 4243 500 10\n")
    processes = json.loads(run(library, NVML_STUB_DIR=str(tmp_path)).stdout)["processes"]
    assert [(each["pid"], each["memory_mib"]) for each in processes["1"]] == [(4242, 3000.0), (4243, 500.0)]
