"""Real GPUs, read through NVML. Without its library or driver there are no GPUs. A GPU that fails has no figures."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from workers.system import log
from workers.telemetry.links import gpu_links
from workers.telemetry.sampler import GpuFailedError, GpuFound, GpuSample, PartUse

if TYPE_CHECKING:
    from collections.abc import Callable

    from workers.protocol.wire import Links

with warnings.catch_warnings():
    # A .venv of Berth 0.1 also has the package pynvml, which only wraps nvidia-ml-py and warns of that at each import.
    warnings.filterwarnings("ignore", category=FutureWarning)
    import pynvml


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


class NvmlSampler:
    """See `workers.telemetry.sampler.GpuSampler`."""

    def __init__(self) -> None:
        self._handles: dict[int, Any] = {}
        self._failing: set[tuple[int, str]] = set()
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            log.info("no GPUs", reason=str(error))
            return
        for index in range(pynvml.nvmlDeviceGetCount()):
            try:
                self._handles[index] = pynvml.nvmlDeviceGetHandleByIndex(index)
            except pynvml.NVMLError as error:
                log.error("gpu cannot be opened and is left out", gpu=index, reason=str(error))

    def gpus(self) -> list[GpuFound]:
        """Return the GPUs. Raises GpuFailedError when one does not give its name, uuid or memory."""
        try:
            return [self._found(index, handle) for index, handle in self._handles.items()]
        except pynvml.NVMLError as error:
            raise GpuFailedError(f"a GPU does not give its name, UUID or memory: {error}") from error

    @staticmethod
    def _found(index: int, handle: Any) -> GpuFound:
        return GpuFound(
            index=index,
            uuid=_text(pynvml.nvmlDeviceGetUUID(handle)),
            type=_text(pynvml.nvmlDeviceGetName(handle)),
            memory_mib=int(pynvml.nvmlDeviceGetMemoryInfo(handle).total) // 2**20,
        )

    def links(self) -> Links:
        return gpu_links(list(self._handles.values()))

    def sample(self, parts: list[PartUse]) -> dict[int, GpuSample]:
        return {index: self._sample(index, handle) for index, handle in self._handles.items()}

    def _sample(self, index: int, handle: Any) -> GpuSample:
        return GpuSample(
            utilisation=self._measure(index, "utilisation", lambda: pynvml.nvmlDeviceGetUtilizationRates(handle).gpu),
            memory_mib=self._measure(index, "memory", lambda: pynvml.nvmlDeviceGetMemoryInfo(handle).used / 2**20),
            power_w=self._measure(index, "power", lambda: pynvml.nvmlDeviceGetPowerUsage(handle) / 1000),
        )

    def _measure(self, index: int, what: str, read: Callable[[], float]) -> float | None:
        """Return the figure, None when reading fails. The log says once that it fails, and once that it works again."""
        try:
            value = float(read())
        except pynvml.NVMLError as error:
            if (index, what) not in self._failing:
                self._failing.add((index, what))
                log.error("gpu figure cannot be read", gpu=index, measure=what, reason=str(error))
            return None
        if (index, what) in self._failing:
            self._failing.discard((index, what))
            log.info("gpu figure can be read again", gpu=index, measure=what)
        return value
