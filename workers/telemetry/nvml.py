"""Real GPUs, read through NVML. Without its library or driver there are no GPUs. A GPU that fails has no figures.

A function that the driver lacks gives None for its figure, and is no trouble. A GPU that is lost, needs a reset, or answers
nothing at all is one (`GpuTrouble`), and so is each Xid that the driver tells.

An operator may have cut a GPU into instances (MIG). Each is a device of its own type; the whole one is out of use beside them.
Berth makes no instances and removes none. Of an instance the driver gives only its memory and its processes: use, power, clocks
and errors it refuses. They are not asked for and stay unknown (`OF_AN_INSTANCE`). Xids are not followed on a GPU that is cut, and
between instances there are no links. By the profile at the end of its type's name (`... MIG 1g.10gb`) the portal knows an
instance.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pynvml

from workers.system import log
from workers.telemetry.nvml_calls import (
    CALLS,
    FAILED,
    PcieMeter,
    RunningProcesses,
    XidEvents,
    gpu_links,
    memory,
    minor,
    slowdown_c,
)
from workers.telemetry.sampler import FAST, PROFILE, GpuDetails, GpuFound, GpuSample, GpuTrouble, PartUse

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from workers.protocol.inventory import Links

OF_AN_INSTANCE = ("memory_mib",)
FIRST_INDEX, A_GPU = 64, 8
"""Instance 2 of GPU 1 has the index 64 + 8 * 1 + 2: no GPU has more than seven."""


def instances_of(index: int, handle: Any) -> dict[int, Any] | None:
    """Return the instances of a GPU in MIG mode, by the index that each goes by here; None: it is not cut."""
    try:
        if pynvml.nvmlDeviceGetMigMode(handle)[0] != pynvml.NVML_DEVICE_MIG_ENABLE:
            return None
        most = min(A_GPU, int(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle)))
    except pynvml.NVMLError:  # no GPU of this driver or kind can be cut
        return None
    found = {}
    for place in range(most):
        try:
            found[FIRST_INDEX + A_GPU * index + place] = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, place)
        except pynvml.NVMLError:  # there is none at this place
            continue
    if not found:
        log.error("gpu is in MIG mode without instances and is left out", gpu=index)
    return found


def type_of(handle: Any, name: str) -> str:
    """Return the type of an instance by the name that the driver gives: it ends with the instance's profile."""
    if PROFILE.search(name):
        return name
    told = pynvml.nvmlDeviceGetAttributes_v2(handle)  # a driver that gives the whole GPU's name
    slices, computing = int(told.gpuInstanceSliceCount), int(told.computeInstanceSliceCount)
    part = f"{computing}c." if computing < slices else ""
    return f"{name} MIG {part}{slices}g.{math.ceil(told.memorySizeMB / 1024)}gb"


DEAF_LOOKS = 3
"""Looks in a row without any figure after which a GPU counts as failed."""
PCI = Path("/sys/bus/pci/devices")
NVIDIA = "0x10de"
DISPLAY_CLASSES = ("0x0300", "0x0302")


class NvmlSampler:
    """See `workers.telemetry.sampler.GpuSampler`."""

    def __init__(self, only: Callable[[Sequence[GpuFound]], set[int]] | None = None) -> None:
        """`only`: of the GPUs that were found, the indices of those to read; the others are as if they were not there."""
        self._handles: dict[int, Any] = {}
        self._wholes: dict[int, str] = {}  # of an instance: the GPU that it is a part of
        self._failing: set[tuple[int, str]] = set()
        self._deaf: dict[int, int] = {}
        self._closed: dict[int, str] = {}
        self._found_first: list[GpuFound] | None = None
        self._pcie, self._running = PcieMeter(), RunningProcesses()
        self._trouble = nvml_start()
        self._xids = XidEvents({})
        self._limits: dict[int, float | None] = {}
        if self._trouble is not None:
            return
        for index in range(pynvml.nvmlDeviceGetCount()):
            try:
                self._take(index, pynvml.nvmlDeviceGetHandleByIndex(index))
            except pynvml.NVMLError as error:
                log.error("gpu cannot be opened and is left out", gpu=index, reason=str(error))
                self._closed[index] = str(error)
        if only is not None:
            mine = only(self.gpus())
            self._handles = {index: self._handles[index] for index in mine}
            self._found_first, self._closed = [each for each in self.gpus() if each.index in mine], {}
        whole = {index: handle for index, handle in self._handles.items() if index not in self._wholes}
        self._xids = XidEvents(whole)
        self._limits = {index: slowdown_c(handle) for index, handle in whole.items()}

    def _take(self, index: int, handle: Any) -> None:
        """Take a GPU, or in its place the instances that its operator has cut it into."""
        instances = instances_of(index, handle)
        if instances is None:
            self._handles[index] = handle
            return
        whole = pynvml.nvmlDeviceGetUUID(handle)
        self._handles |= instances
        self._wholes |= dict.fromkeys(instances, whole)

    def trouble(self) -> str | None:
        return self._trouble or None

    def gpus(self) -> list[GpuFound]:
        """Return the GPUs as they were found first: the driver, which may hang, is asked once.

        One that does not give its name, uuid or memory is left out, and is trouble at each look.
        """
        if self._found_first is None:
            self._found_first = self._find()
        return self._found_first

    def _find(self) -> list[GpuFound]:
        found = []
        for index, handle in self._handles.items():
            try:
                found.append(self._describe(index, handle))
            except pynvml.NVMLError as error:
                log.error("gpu does not give its name and is left out", gpu=index, reason=str(error))
        return found

    def _describe(self, index: int, handle: Any) -> GpuFound:
        name = pynvml.nvmlDeviceGetName(handle)
        return GpuFound(
            index=index,
            uuid=pynvml.nvmlDeviceGetUUID(handle),
            type=type_of(handle, name) if index in self._wholes else name,
            memory_mib=memory(handle)[0] // 2**20,
            whole_uuid=self._wholes.get(index, ""),
            minor=None if index in self._wholes else minor(handle),
        )

    def links(self) -> Links:
        return gpu_links([handle for index, handle in self._handles.items() if index not in self._wholes])

    def sample(self, parts: Sequence[PartUse]) -> dict[int, GpuSample]:
        return {index: GpuSample(**self._read(index, FAST)) for index in self._handles}

    def read_details(self, parts: Sequence[PartUse]) -> GpuDetails:
        now_s, troubles = time.monotonic(), list(self._xids.new())
        troubles += [GpuTrouble(index, "nvml", why) for index, why in self._closed.items()]
        samples, processes = {}, {}
        for index, handle in self._handles.items():
            failed: dict[str, Any] = {}
            values = self._read(index, tuple(CALLS), failed)
            pcie = {} if index in self._wholes else self._pcie.read(index, handle, now_s)
            samples[index] = replace(GpuSample(**values), **pcie)
            if (running := self._running.read(index, handle)) is not None:
                processes[index] = running
            troubles += self._unwell(index, values, failed)
        return GpuDetails(samples, processes, tuple(troubles))

    def _unwell(self, index: int, values: dict[str, float | None], failed: dict[str, Any]) -> list[GpuTrouble]:
        """Say that a GPU does not answer: at once when the driver says so, else after DEAF_LOOKS looks without a figure."""
        found = self._out_of_bounds(index, values)
        told = next((str(error) for error in failed.values() if error.value in FAILED), None)
        silent = failed and all(value is None for value in values.values())
        self._deaf[index] = self._deaf.get(index, 0) + 1 if silent else 0
        if told is None and self._deaf[index] < DEAF_LOOKS:
            return found
        return [*found, GpuTrouble(index, "nvml", told or str(next(iter(failed.values()))))]

    def _out_of_bounds(self, index: int, values: dict[str, float | None]) -> list[GpuTrouble]:
        found = []
        errors, degrees, limit = values["ecc_uncorrected"], values["temperature_c"], self._limits.get(index)
        if errors:
            found.append(GpuTrouble(index, "ecc", "", int(errors)))
        if degrees is not None and limit is not None and degrees >= limit:
            detail = f"Its temperature has reached {limit:.0f} \u00b0C, at which it slows down."
            found.append(GpuTrouble(index, "temperature", detail))
        return found

    def _read(
        self, index: int, names: tuple[str, ...], failed: dict[str, Any] | None = None
    ) -> dict[str, float | None]:
        handle = self._handles[index]
        asked = OF_AN_INSTANCE if index in self._wholes else names
        found = {name: self._measure(index, name, lambda n=name: CALLS[n](handle), failed) for name in asked}  # type: ignore[misc]
        return dict.fromkeys(names) | found

    def _measure(self, index: int, what: str, read: Callable[[], float], failed: dict[str, Any] | None) -> float | None:
        """Return the figure, None when reading fails. The log says once that it fails, and once that it works again."""
        try:
            value = float(read())
        except pynvml.NVMLError as error:
            if failed is not None:
                failed[what] = error
            if (index, what) not in self._failing:
                self._failing.add((index, what))
                log.error("gpu figure cannot be read", gpu=index, measure=what, reason=str(error))
            return None
        if (index, what) in self._failing:
            self._failing.discard((index, what))
            log.info("gpu figure can be read again", gpu=index, measure=what)
        return value


def nvml_start() -> str | None:
    """Start NVML. None: it runs. Empty: there are no GPUs here. Else why the GPUs that are here cannot be used."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        why = str(error)
        mismatch = error.value == getattr(pynvml, "NVML_ERROR_LIB_RM_VERSION_MISMATCH", 18)
        there = gpus_on_bus()
        if not mismatch and not there:
            log.info("no GPUs", reason=why)
            return ""
        log.error("gpus cannot be used", reason=why, on_the_bus=there)
        if mismatch:
            return "The NVIDIA driver in the kernel and its library are of different versions."
        return (
            f"The machine has {there} NVIDIA GPU{'s' if there != 1 else ''}, but their driver does not answer: {why}."
        )
    return None


def gpus_on_bus(root: Path = PCI) -> int:
    """Count the NVIDIA GPUs that the kernel sees on the PCI bus, with a driver or without."""
    return sum(
        _word(each / "vendor") == NVIDIA and _word(each / "class")[:6] in DISPLAY_CLASSES for each in root.glob("*")
    )


def _word(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:  # the device went while we looked
        return ""
