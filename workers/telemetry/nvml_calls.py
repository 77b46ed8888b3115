"""The calls of NVML behind each figure and link, and three that keep a state: PCIe counters, processes, Xid events."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import pynvml

from workers.system import log
from workers.telemetry.sampler import GpuProcess, GpuTrouble, Rates

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from workers.protocol.inventory import Links

FAILED = frozenset({pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED})
"""NVML's answers that mean: this GPU computes nothing until it is reset or the machine is."""
_LONG = frozenset({pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG, pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG})
_ABSENT = frozenset(
    {pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND, pynvml.NVML_ERROR_NOT_FOUND}
)
XIDS_AT_ONCE = 64


def _throttle(handle: Any) -> int:
    try:
        return int(pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
    except pynvml.NVMLError_FunctionNotFound:  # the older name of the same
        return int(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))


def _ecc(kind: int) -> Callable[[Any], float]:
    return lambda handle: pynvml.nvmlDeviceGetTotalEccErrors(handle, kind, pynvml.NVML_VOLATILE_ECC)


def memory(handle: Any) -> tuple[int, int]:
    """Return a GPU's memory for jobs and its used memory, in bytes.

    The driver's own memory (some hundred MiB) is in neither. A driver before 510 counts it in both.
    """
    try:
        found = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
    except pynvml.NVMLError_FunctionNotFound:
        found = pynvml.nvmlDeviceGetMemoryInfo(handle)
        return int(found.total), int(found.used)
    return int(found.total) - int(found.reserved), int(found.used)


def minor(handle: Any) -> int | None:
    """Return N of a GPU's file /dev/nvidiaN; None when the driver does not say."""
    try:
        return int(pynvml.nvmlDeviceGetMinorNumber(handle))
    except pynvml.NVMLError:
        return None


CALLS: Mapping[str, Callable[[Any], float]] = {
    "utilisation": lambda handle: pynvml.nvmlDeviceGetUtilizationRates(handle).gpu,
    "memory_mib": lambda handle: memory(handle)[1] / 2**20,
    "power_w": lambda handle: pynvml.nvmlDeviceGetPowerUsage(handle) / 1000,
    "energy_j": lambda handle: pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1000,
    "temperature_c": lambda handle: pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU),
    "clock_mhz": lambda handle: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM),
    "memory_clock_mhz": lambda handle: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_MEM),
    "throttle": _throttle,
    "ecc_corrected": _ecc(pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED),
    "ecc_uncorrected": _ecc(pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
}
"""By the field of `GpuSample`. PCIe is apart, since it is a rate."""


def slowdown_c(handle: Any) -> float | None:
    """Return the temperature at which a GPU slows itself down, None when the driver does not say."""
    try:
        return float(pynvml.nvmlDeviceGetTemperatureThreshold(handle, pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN))
    except pynvml.NVMLError:
        return None


class PcieMeter:
    """Bytes that a GPU sends and receives, in 10^6 a second.

    The driver's byte counters where they are 64 bits wide (a 32-bit one may wrap several times between two looks, which
    nobody could tell); else its own measurement over 20 ms, for which it makes the caller wait.
    """

    FIELDS: Mapping[str, tuple[int, int]] = {
        "pcie_tx_mb_s": (pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, pynvml.NVML_PCIE_UTIL_TX_BYTES),
        "pcie_rx_mb_s": (pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES, pynvml.NVML_PCIE_UTIL_RX_BYTES),
    }

    def __init__(self) -> None:
        self._rates = Rates()

    def read(self, index: int, handle: Any, now_s: float) -> dict[str, float | None]:
        counted = self._count(handle)
        found: dict[str, float | None] = {}
        for name, (field, kind) in self.FIELDS.items():
            if field in counted:
                rate = self._rates.rate((index, name), counted[field], now_s)
                found[name] = None if rate is None else round(rate / 1e6, 3)
            else:
                found[name] = self._measure(handle, kind)
        return found

    def _count(self, handle: Any) -> dict[int, float]:
        """Return the counters that are wide enough, in bytes."""
        try:
            values = pynvml.nvmlDeviceGetFieldValues(handle, [field for field, _ in self.FIELDS.values()])
        except pynvml.NVMLError:
            return {}
        return {
            each.fieldId: float(each.value.ullVal)
            for each in values
            if each.nvmlReturn == pynvml.NVML_SUCCESS and each.valueType in _LONG
        }

    @staticmethod
    def _measure(handle: Any, kind: int) -> float | None:
        try:
            return float(round(pynvml.nvmlDeviceGetPcieThroughput(handle, kind) * 1024 / 1e6, 3))
        except pynvml.NVMLError:
            return None


def _processes(handle: Any) -> list[Any]:
    # By their versions: the call without one raises another kind of error where the driver lacks it.
    try:
        return list(pynvml.nvmlDeviceGetComputeRunningProcesses_v3(handle))
    except pynvml.NVMLError_FunctionNotFound:
        return list(pynvml.nvmlDeviceGetComputeRunningProcesses_v2(handle))


class RunningProcesses:
    """Processes that compute on a GPU. Graphics of a screen does not count."""

    def __init__(self) -> None:
        self._seen_us: dict[int, int] = {}

    def read(self, index: int, handle: Any) -> list[GpuProcess] | None:
        """Return the processes, None when the driver does not tell them."""
        try:
            found = _processes(handle)
        except pynvml.NVMLError:
            return None
        if not found:
            return []
        uses = self._uses(index, handle)
        return [
            GpuProcess(
                int(each.pid),
                None if each.usedGpuMemory is None else round(int(each.usedGpuMemory) / 2**20, 1),
                uses.get(int(each.pid)),
            )
            for each in found
        ]

    def _uses(self, index: int, handle: Any) -> dict[int, float]:
        """Return the SM use of each process in per cent, its mean over the driver's samples since the last look."""
        try:
            samples = pynvml.nvmlDeviceGetProcessUtilization(handle, self._seen_us.get(index, 0))
        except pynvml.NVMLError:
            return {}
        sums: dict[int, list[int]] = {}
        for each in samples:
            sums.setdefault(int(each.pid), []).append(int(each.smUtil))
            self._seen_us[index] = max(self._seen_us.get(index, 0), int(each.timeStamp))
        return {pid: round(sum(uses) / len(uses), 1) for pid, uses in sums.items()}


def _address(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value


class XidEvents:
    """Errors that the driver tells of its own accord, by NVIDIA's numbers."""

    def __init__(self, handles: Mapping[int, Any]) -> None:
        self._set: Any = None
        # By the handle's address: a GPU that is lost does not even tell its index.
        self._indices = {_address(handle): index for index, handle in handles.items()}
        for index, handle in handles.items():
            try:
                self._set = self._set or pynvml.nvmlEventSetCreate()
                pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, self._set)
            except pynvml.NVMLError as error:
                if error.value not in _ABSENT:
                    log.error("gpu errors (Xid) cannot be followed", gpu=index, reason=str(error))

    def new(self) -> list[GpuTrouble]:
        """Return the errors since the last call, without waiting."""
        found: list[GpuTrouble] = []
        while self._set is not None and len(found) < XIDS_AT_ONCE:
            try:
                event = pynvml.nvmlEventSetWait_v2(self._set, 0)
            except pynvml.NVMLError_Timeout:
                break
            except pynvml.NVMLError as error:
                log.error("gpu errors (Xid) cannot be read", reason=str(error))
                break
            index = self._indices.get(_address(event.device))
            if index is not None and event.eventType == pynvml.nvmlEventTypeXidCriticalError:
                found.append(GpuTrouble(index, "xid", "", int(event.eventData)))
        return found


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
