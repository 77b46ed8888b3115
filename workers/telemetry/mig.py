"""MIG: a GPU that its operator has cut into instances. Each is a device of its own type; the whole one is out of use beside them.

Berth makes no instances and removes none. Of an instance the driver tells only its memory and its processes (`TOLD`): use,
power, clocks and errors it refuses, so they are not asked for and stay unknown. Xids are not followed on a GPU that is cut, and
between instances there are no links. By the profile at the end of its type's name (`... MIG 1g.10gb`) the portal knows an
instance.
"""

from __future__ import annotations

import math
from typing import Any

import pynvml

from workers.system import log
from workers.telemetry.sampler import PROFILE

TOLD = ("memory_mib",)
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
