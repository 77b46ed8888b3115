"""GPUs from NVIDIA's library to the page: a stub of libnvidia-ml under the real pynvml, an agent, the wire, the portal, a reader.

One machine has GPUs of two types, the other an old driver that lacks most functions.
"""

import os
import re

import httpx2
import pytest

from portal.nodes.fields import MEASURES
from tests.native.nvml import built
from tests.system.helpers.client import Tenant
from tests.system.helpers.machine import machine

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.xdist_group("shells")]

SPENDS_ITS_BERTH = True  # by nodes that are gone in the end
FAST, SMALL = "NVIDIA H100 80GB HBM3", "NVIDIA T4"
TWO_TYPES = {"NVML_STUB_COUNT": "3", "NVML_STUB_TYPES": f"{SMALL}|{FAST}", "NVML_STUB_PCIE": "64"}


@pytest.fixture(scope="module")
def berth(berth_shared):
    return berth_shared


@pytest.fixture(scope="module")
def stub(berth, tmp_path_factory):
    """The directory in which tests tell the stub of node `two` what happens to its GPUs."""
    directory = tmp_path_factory.mktemp("stub")
    new, old = built(tmp_path_factory), built(tmp_path_factory, "-DOLD_DRIVER")
    told = {"LD_LIBRARY_PATH": str(new), "NVML_STUB_DIR": str(directory)}
    with (
        machine(berth, "two", **TWO_TYPES, **told),
        machine(berth, "old", LD_LIBRARY_PATH=str(old), NVML_STUB_COUNT="1", NVML_STUB_TYPES="Tesla K80"),
    ):
        yield directory


@pytest.fixture(scope="module")
def tenant(berth):
    return Tenant(berth)


def node(tenant, name="two"):
    status, found = tenant.berth.request(f"/api/v1/nodes/{name}", token=tenant.token)
    assert status == 200, found
    return found


def gpu(tenant, index, name="two"):
    return next(each for each in node(tenant, name)["gpu_list"] if each["index"] == index)


@pytest.fixture(scope="module")
def page(berth):
    """A function: a node's page as an operator reads it, who signed in once, without tags."""
    with httpx2.Client(base_url=berth.url, timeout=30.0, follow_redirects=True) as browser:
        form = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', browser.get("/login").text)[1]
        assert browser.post("/login", data={"csrfmiddlewaretoken": form, **berth.operator}).status_code == 200
        yield lambda name="two": " ".join(re.sub(r"<[^>]+>", " ", browser.get(f"/cluster/{name}/").text).split())


def test_a_counter_that_wraps_has_no_rate_and_a_process_of_nobody_closes_its_gpu(berth, stub, tenant, page):
    """From the driver to the page, and back to normal by itself."""
    berth.wait(lambda: "pcie_tx_mb_s" in gpu(tenant, 1)["sample"], limit_s=120.0, what="a rate")
    (stub / "wraps").touch()
    berth.wait(lambda: "pcie_tx_mb_s" not in gpu(tenant, 1)["sample"], limit_s=60.0, what="no rate")
    sample = gpu(tenant, 1)["sample"]
    assert {"utilisation", "energy_j", "temperature_c"} <= set(sample)
    assert "pcie_rx_mb_s" not in sample
    berth.wait(lambda: "PCIe sent" not in page(), what="no column that no GPU fills")
    assert node(tenant)["findings"] == [], "a counter may wrap"
    (stub / "wraps").unlink()
    berth.wait(lambda: gpu(tenant, 1)["sample"].get("pcie_tx_mb_s", 0) > 0, limit_s=60.0, what="a rate again")

    (stub / "processes").write_text(f"1 {os.getpid()} 3000 80\n")
    berth.wait(lambda: gpu(tenant, 1)["outside_since"], limit_s=60.0, what="the process of nobody")
    assert "used by a process outside Berth" in page()
    (stub / "processes").unlink()
    berth.wait(lambda: gpu(tenant, 1)["outside_since"] is None, limit_s=60.0, what="a free GPU")


def test_from_the_driver_to_the_page(berth, stub, tenant, page):
    """Every measure, two types on one node, a function that is missing, an Xid under a job, a GPU that is lost."""
    measures = {name for name in MEASURES["gpus"] if "." not in name}
    berth.wait(lambda: set(gpu(tenant, 2)["sample"]) == measures, limit_s=120.0, what="all measures")
    found = node(tenant)
    assert (found["gpu_type"], found["gpus_by_type"]) == (FAST, {FAST: 2, SMALL: 1})
    assert [each["gpu_type"] for each in found["gpu_list"]] == [SMALL, FAST, FAST]

    fast = tenant.submit("echo $BERTH_GPU_TYPE; sleep 600", gpus=1, gpu_types=[FAST], restartable=True)
    small = tenant.submit("echo $BERTH_GPU_TYPE; sleep 600", gpus=1, gpu_types=[SMALL], restartable=True)
    tenant.wait_state(fast, "RUNNING", limit_s=60.0)
    tenant.wait_state(small, "RUNNING", limit_s=60.0)
    assert tenant.wait_log(fast, "\n") == f"{FAST}\n"
    assert tenant.wait_log(small, "\n") == f"{SMALL}\n"
    held = {part["job"]: part["gpus"] for part in node(tenant)["running"]}
    assert held[int(small)] == [0]
    (at,) = held[int(fast)]

    shown = page()
    assert f"2 × {FAST}, 1 × {SMALL}" in shown
    for figure in ("61 °C", "350 W", "41 %", "0.0 kWh", "1 980 MHz 2 619 MHz power limit 3 0"):
        assert figure in shown, f"{figure}: {shown}"

    berth.wait(lambda: "utilisation" in gpu(tenant, 0, "old")["sample"], what="the old driver's use")
    missing = measures - set(gpu(tenant, 0, "old")["sample"])
    assert {"energy_j", "pcie_tx_mb_s", "ecc_corrected"} <= missing
    assert node(tenant, "old")["findings"] == [], "what a driver cannot tell is no fault"
    assert [head for head in ("energy", "PCIe sent", "memory errors corrected") if head in page("old")] == []

    (stub / "xid").write_text(f"{at} 48")
    berth.wait(lambda: gpu(tenant, at)["cordon_check"] == "xid 48", what="the Xid's cordon")
    berth.wait(lambda: tenant.job(fast)["attempts"][0]["epoch"] > 1, limit_s=120.0, what="it runs again")
    tenant.wait_state(fast, "RUNNING", limit_s=60.0)
    assert next(part["gpus"] for part in node(tenant)["running"] if part["job"] == int(fast)) == [3 - at]
    assert tenant.state(small) == "RUNNING", "the other type's GPU is well"
    (stub / "lost").write_text("0")
    berth.wait(lambda: gpu(tenant, 0)["cordon_check"] == "nvml", what="the lost GPU's cordon")
    berth.wait(lambda: not gpu(tenant, 0)["sample"], what="no figure of a lost GPU")
    shown = page()
    assert "Xid 48" in shown
    assert "GPU 0: It does not answer" in shown
    status, metrics = berth.request("/metrics/gpus", token=(berth.data / "metrics-token").read_text())
    assert (status, f'DCGM_FI_DEV_XID_ERRORS{{gpu="{at}"' in metrics) == (200, True), metrics
