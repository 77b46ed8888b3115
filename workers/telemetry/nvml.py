"""Real GPUs through NVML. No library or no driver means no GPUs here; a GPU that fails says so and has no figures."""

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
    # pynvml 13 is a shim over nvidia-ml-py and says so at each import.
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
                log.error("gpu is left out", gpu=index, reason=str(error))

    def gpus(self) -> list[GpuFound]:
        """Raises GpuFailedError when a GPU that is there does not tell its name, uuid or memory."""
        try:
            return [self._found(index, handle) for index, handle in self._handles.items()]
        except pynvml.NVMLError as error:
            raise GpuFailedError(f"a GPU does not tell what it is: {error}") from error

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
        """None when it fails; said once when it begins to fail and once when it works again."""
        try:
            value = float(read())
        except pynvml.NVMLError as error:
            if (index, what) not in self._failing:
                self._failing.add((index, what))
                log.error("gpu measure fails", gpu=index, measure=what, reason=str(error))
            return None
        if (index, what) in self._failing:
            self._failing.discard((index, what))
            log.info("gpu measure works again", gpu=index, measure=what)
        return value
