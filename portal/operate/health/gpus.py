"""`/metrics/gpus` for Prometheus: each GPU's last sample under the names of NVIDIA's DCGM exporter, so that its boards work.

Apart from `/metrics`, which is cheap: this is a dozen lines a GPU. Names, units and labels are those of dcgm-exporter's
default counters. A figure that was not measured in the last 30 s has no line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from portal.cluster.models import Gpu, Node
from portal.cluster.services.health import NODE
from portal.operate.health.prometheus import CONTENT_TYPE, access_check

if TYPE_CHECKING:
    from collections.abc import Iterator

    Row = tuple[str, dict[str, Any]]

FIGURES = (
    ("DCGM_FI_DEV_GPU_UTIL", "gauge", "utilisation", 1.0, "GPU utilisation (in %)."),
    ("DCGM_FI_DEV_FB_USED", "gauge", "memory_mib", 1.0, "Framebuffer memory used (in MiB)."),
    ("DCGM_FI_DEV_FB_FREE", "gauge", "free_mib", 1.0, "Framebuffer memory free (in MiB)."),
    ("DCGM_FI_DEV_POWER_USAGE", "gauge", "power_w", 1.0, "Power draw (in W)."),
    (
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
        "counter",
        "energy_j",
        1000.0,
        "Energy since the driver was loaded (in mJ).",
    ),
    ("DCGM_FI_DEV_GPU_TEMP", "gauge", "temperature_c", 1.0, "GPU temperature (in C)."),
    ("DCGM_FI_DEV_SM_CLOCK", "gauge", "clock_mhz", 1.0, "SM clock frequency (in MHz)."),
    ("DCGM_FI_DEV_MEM_CLOCK", "gauge", "memory_clock_mhz", 1.0, "Memory clock frequency (in MHz)."),
    ("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "gauge", "throttle", 1.0, "Why the clocks are low (NVML's bits)."),
    ("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "counter", "ecc_corrected", 1.0, "Corrected memory errors."),
    ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "counter", "ecc_uncorrected", 1.0, "Memory errors that could not be corrected."),
    ("DCGM_FI_PROF_PCIE_TX_BYTES", "gauge", "pcie_tx_mb_s", 1e6, "Bytes a second sent over PCIe."),
    ("DCGM_FI_PROF_PCIE_RX_BYTES", "gauge", "pcie_rx_mb_s", 1e6, "Bytes a second received over PCIe."),
    ("DCGM_FI_DEV_XID_ERRORS", "gauge", "xid", 1.0, "The last Xid that its agent still tells."),
    ("berth_gpu_takes_jobs", "gauge", "takes_jobs", 1.0, "0: cordoned, or used by a process outside Berth."),
)
"""Name, type, measure, factor, meaning. The last is Berth's own."""


@require_safe
def gpu_metrics(request: HttpRequest) -> HttpResponse:
    """Answer a scrape that `/metrics` would answer."""
    access_check(request)
    return HttpResponse("".join(lines()), content_type=CONTENT_TYPE)


def lines() -> Iterator[str]:
    """Yield the exposition, a family at a time. Two queries."""
    rows = list(_rows())
    for name, kind, measure, factor, says in FIGURES:
        known = [(labels, sample[measure]) for labels, sample in rows if sample.get(measure) is not None]
        if known:
            yield f"# HELP {name} {says}\n# TYPE {name} {kind}\n"
            for labels, value in known:
                yield f"{name}{labels} {factor * value:.10g}\n"


def _rows() -> Iterator[Row]:
    """Yield each GPU that is there: its labels, and its present figures."""
    gpus = Gpu.objects.present().filter(node__dead_at=None).with_type().order_by("node__name", "index")
    columns = ("node_id", "index", "uuid", "memory_mib", "type_name", "cordoned_at", "outside_since")
    rows = list(gpus.values_list(*columns))  # no objects: a large cluster has tens of thousands of GPUs
    nodes = Node.objects.alive().only("name", "live", "findings")
    by_id = {node.pk: (_escaped(node.name), node.live_gpus, _xids(node)) for node in nodes}
    for node_id, index, uuid, memory_mib, type_name, cordoned_at, outside_since in rows:
        if node_id not in by_id:  # its node was declared dead between the two looks
            continue
        name, live, xids = by_id[node_id]
        sample: dict[str, Any] = dict(live.get(str(index), {}))
        if "memory_mib" in sample:
            sample["free_mib"] = max(0.0, memory_mib - sample["memory_mib"])
        sample["xid"], sample["takes_jobs"] = xids.get(index), float(cordoned_at is None and outside_since is None)
        model = _escaped(type_name or "")
        labels = f'gpu="{index}",UUID="{_escaped(uuid)}",device="nvidia{index}",modelName="{model}",Hostname="{name}"'
        yield f"{{{labels}}}", sample


def _xids(node: Node) -> dict[int, float]:
    """Return the latest Xid by GPU index."""
    found = {}
    for each in node.findings:
        check, _, code = each["check"].partition(" ")
        if check == "xid" and code.isdigit() and each["subject"] != NODE:  # an agent may say that of a node, too
            found[int(each["subject"].removeprefix("gpu:"))] = float(code)
    return found


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
