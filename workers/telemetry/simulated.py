"""GPUs of a virtual node: their figures are computed from the real processes that hold them. Nothing is random.

The use of a virtual GPU is the CPU time that its processes had or waited for, divided by the GPUs that they hold. Time
they waited for a core counts, because a virtual node declares more cores than the machine has. So one process that
computes without pause fills one GPU. With `core-percent`, that share of a core fills it: jobs read the share in
BERTH_VIRTUAL_PACE and sleep for the rest, as a training waits for its GPU. The use is smoothed over about three seconds,
as NVML's is. Memory is that of the processes, spread over their GPUs. Power grows linearly from idle to board power.

A job may say how a virtual GPU answers to its CPU cores: VIRTUAL_RESPONSE in its environment is the part of full speed at
1, 2, 3 ... cores a GPU, as a data loader would make it. No more than that part of the GPU is then used, by the cores that
the part truly has. And VIRTUAL_TRAFFIC says what the job draws from the node's memory, and what that costs (`traffic`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workers.telemetry.sampler import GpuFound, GpuLook, GpuSample, PartUse
from workers.telemetry.traffic import SimulatedTraffic, traffic_slows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workers.protocol.inventory import Links

_SMOOTHING = 1 / 3
_IDLE_SHARE = 0.12
# Board power in watts from the makers' data sheets. The first word that occurs in the type's name counts.
_BOARD_POWER_W = {"H200": 700, "H100": 700, "A100": 400, "V100": 300, "A40": 300, "L40": 300, "T4": 70, "P100": 250}
_OTHER_POWER_W = 300
RESPONSE = "VIRTUAL_RESPONSE"
RESPONSE_MOST = 64


def board_power_w(gpu_type: str) -> int:
    return next((w for name, w in _BOARD_POWER_W.items() if name in gpu_type), _OTHER_POWER_W)


def response_parse(text: str) -> tuple[float, ...]:
    """Read VIRTUAL_RESPONSE: parts from 0 to 1, at most `RESPONSE_MOST` of them; nothing where it is not that."""
    try:
        parts = tuple(float(part) for part in text.split(","))
    except ValueError:
        return ()
    return parts if len(parts) <= RESPONSE_MOST and all(0 <= part <= 1 for part in parts) else ()


def response_at(part: PartUse) -> float:
    """Return the part of full speed that the part's present cores allow; beyond the last one given it stays at that."""
    if not part.response or not part.cores:
        return 1.0
    return part.response[min(len(part.response), max(1, part.cores // len(part.gpus))) - 1]


class SimulatedSampler:
    """See `workers.telemetry.sampler.GpuSampler`."""

    def __init__(
        self, gpus: list[GpuFound], *, core_share: float = 1.0, traffic: SimulatedTraffic | None = None
    ) -> None:
        self._gpus = gpus
        self._core_share = core_share
        self._traffic = traffic
        self._smooth = dict.fromkeys((g.index for g in gpus), 0.0)

    def gpus(self) -> list[GpuFound]:
        return list(self._gpus)

    def links(self) -> Links:
        return {"nvlink_gbps": None, "pcie_generation": None, "pcie_lanes": None, "network_mbps": None}

    def trouble(self) -> str | None:
        return None

    def sample(self, parts: Sequence[PartUse]) -> dict[int, GpuSample]:
        holder = {gpu: part for part in parts for gpu in part.gpus}
        asked = self._traffic.asked(parts) if self._traffic else 0.0
        return {gpu.index: self._sample(gpu, holder.get(gpu.index), asked) for gpu in self._gpus}

    def look(self, parts: Sequence[PartUse]) -> GpuLook:
        """Return nothing further: a virtual GPU has no clocks, no temperature and no errors, and none are made up."""
        return GpuLook()

    def _sample(self, gpu: GpuFound, part: PartUse | None, asked: float) -> GpuSample:
        wanted = (part.cpu_cores + part.wait_cores) / len(part.gpus) / self._core_share if part else 0.0
        most = response_at(part) * traffic_slows(part, asked) if part else 1.0
        before = self._smooth[gpu.index]
        share = before + (min(most, wanted) - before) * _SMOOTHING
        self._smooth[gpu.index] = share
        memory_mib = min(part.memory_mib / len(part.gpus), gpu.memory_mib) if part else 0.0
        power_w = board_power_w(gpu.type) * (_IDLE_SHARE + (1 - _IDLE_SHARE) * share)
        return GpuSample(round(100 * share, 1), round(memory_mib, 1), round(power_w, 1))
