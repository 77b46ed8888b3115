"""MIG: a GPU that its operator has cut into instances. Each counts as a GPU of its own; the whole one cannot be used beside them.

Berth makes no instances and removes none. An instance tells its memory and its processes; use, power, clocks and errors the
driver tells of none (they stay unknown), and Xids are not followed on a GPU that is cut.
"""

from __future__ import annotations

from typing import Any

from workers.system import log
from workers.telemetry.bindings import pynvml

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
