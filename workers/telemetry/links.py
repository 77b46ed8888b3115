"""The links between a node's GPUs, by NVML. None: it does not say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pynvml

if TYPE_CHECKING:
    from workers.protocol.inventory import Links

NVLINK_GBPS = {1: 20.0, 2: 25.0, 3: 25.0, 4: 25.0, 5: 50.0}
"""GB/s of one NVLink, one way, by version."""


def gpu_links(handles: list[Any]) -> Links:
    """Return the figures of the GPU with the slowest links. A figure that NVML lacks is None."""
    nvlink = [_nvlink_gbps(handle) for handle in handles]
    pcie = [_pcie(handle) for handle in handles]
    known = [each for each in pcie if each is not None]
    generation, lanes = min(known, default=(None, None))
    together = min(nvlink, default=0.0)  # if one GPU has no NVLink, the ring uses PCIe
    return {"nvlink_gbps": together or None, "pcie_generation": generation, "pcie_lanes": lanes, "network_mbps": None}


def _nvlink_gbps(handle: Any) -> float:
    total = 0.0
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        try:
            if pynvml.nvmlDeviceGetNvLinkState(handle, link) == pynvml.NVML_FEATURE_ENABLED:
                total += NVLINK_GBPS.get(int(pynvml.nvmlDeviceGetNvLinkVersion(handle, link)), 0.0)
        except pynvml.NVMLError:  # this GPU has no further link
            break
    return total


def _pcie(handle: Any) -> tuple[int, int] | None:
    try:
        return (
            int(pynvml.nvmlDeviceGetMaxPcieLinkGeneration(handle)),
            int(pynvml.nvmlDeviceGetMaxPcieLinkWidth(handle)),
        )
    except pynvml.NVMLError:
        return None
