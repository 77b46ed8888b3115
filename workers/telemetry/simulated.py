"""GPUs of a virtual node: their figures are computed from the real processes that hold them. Nothing is random.

The use of a virtual GPU is the CPU time that its processes had or waited for, divided by the GPUs that they hold. Time
they waited for a core counts, because a virtual node declares more cores than the machine has. So one process that
computes without pause fills one GPU. With `core-percent`, that share of a core fills it: jobs read the share in
BERTH_VIRTUAL_PACE and sleep for the rest, as a training waits for its GPU. The use is smoothed over about three seconds,
as NVML's is. Memory is that of the processes, spread over their GPUs, and the amount that the job declares (VIRTUAL_GPU).
Power grows linearly from idle to board power. An instance (MIG) shows only its memory, as with a real driver.

Where several parts share a GPU their uses and their memory add up, and each runs at the speed that `turns` leaves it: `speeds`
tells it, and the part's job, which keeps to it as to its pace, reads it from BERTH_VIRTUAL_SPEED_FILE.

A job may say how a virtual GPU answers to its CPU cores: VIRTUAL_RESPONSE in its environment is the part of full speed at
1, 2, 3 ... cores a GPU, as a data loader would make it. No more than that part of the GPU is then used, by the cores that
the part truly has. And VIRTUAL_TRAFFIC gives the job's traffic of the node's memory, and its cost (`traffic`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workers.telemetry.sampler import GpuFound, GpuLook, GpuSample, GpuUse, PartUse
from workers.telemetry.traffic import SimulatedTraffic, traffic_slows
from workers.telemetry.turns import speeds_in_turns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workers.protocol.inventory import Links

_SMOOTHING = 1 / 3
_IDLE_SHARE = 0.12
# Board power in watts from the makers' data sheets. The first word that occurs in the type's name counts.
_BOARD_POWER_W = {"H200": 700, "H100": 700, "A100": 400, "V100": 300, "A40": 300, "L40": 300, "T4": 70, "P100": 250}
RESPONSE = "VIRTUAL_RESPONSE"
RESPONSE_MOST = 64


def board_power_w(gpu_type: str) -> int:
    return next((w for name, w in _BOARD_POWER_W.items() if name in gpu_type), 300)


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
        self._shares: dict[tuple[str, int], float] = {}
        self._speeds: dict[str, float] = {}

    def gpus(self) -> list[GpuFound]:
        return list(self._gpus)

    def links(self) -> Links:
        return {"nvlink_gbps": None, "pcie_generation": None, "pcie_lanes": None, "network_mbps": None}

    def trouble(self) -> str | None:
        return None

    def sample(self, parts: Sequence[PartUse]) -> dict[int, GpuSample]:
        asked = self._traffic.asked(parts) if self._traffic else 0.0
        holders: dict[int, list[PartUse]] = {}
        for part in parts:
            for gpu in part.gpus:
                holders.setdefault(gpu, []).append(part)
        self._shares = {
            (part.attempt, gpu): self._shares.get((part.attempt, gpu), 0.0) for part in parts for gpu in part.gpus
        }
        return {gpu.index: self._sample(gpu, holders.get(gpu.index, []), asked) for gpu in self._gpus}

    def look(self, parts: Sequence[PartUse]) -> GpuLook:
        """Return each part's use of its GPUs. A virtual GPU has no clocks, temperature or errors, and none are made up."""
        known = {gpu.index: gpu for gpu in self._gpus}
        uses: dict[str, dict[int, GpuUse]] = {}
        for part in parts:
            for gpu in part.gpus:
                percent = round(100 * self._shares.get((part.attempt, gpu), 0.0), 1)
                if gpu in known:
                    use = GpuUse(_memory_mib(part), None if known[gpu].is_instance else percent)
                    uses.setdefault(part.attempt, {})[gpu] = use
        return GpuLook(uses=uses)

    def speeds(self, parts: Sequence[PartUse]) -> dict[str, float]:
        """Return at which part of its speed each part runs beside its neighbours: 1 for one that has its GPUs for itself.

        A part wants its present use divided by its present speed, at most the use that it declares.
        """
        on: dict[int, list[tuple[str, float]]] = {}
        for part in parts:
            left = self._speeds.get(part.attempt, 1.0)
            for gpu in part.gpus:
                wanted = self._shares.get((part.attempt, gpu), 0.0) / left
                on.setdefault(gpu, []).append((part.attempt, min(wanted, part.gpu_use[0] if part.gpu_use else 1.0)))
        self._speeds = {part.attempt: 1.0 for part in parts}
        for here in on.values():
            for (attempt, _), speed in zip(here, speeds_in_turns([use for _, use in here]), strict=True):
                self._speeds[attempt] = min(self._speeds[attempt], speed)  # it waits for its slowest GPU
        return dict(self._speeds)

    def _sample(self, gpu: GpuFound, parts: Sequence[PartUse], asked: float) -> GpuSample:
        shares = [self._share(part, asked) for part in parts]
        before = self._smooth[gpu.index]
        whole = before + (min(1.0, sum(shares)) - before) * _SMOOTHING
        self._smooth[gpu.index] = whole
        for part, share in zip(parts, shares, strict=True):
            old = self._shares[part.attempt, gpu.index]
            self._shares[part.attempt, gpu.index] = old + (share - old) * _SMOOTHING
        memory_mib = min(sum(map(_memory_mib, parts)), gpu.memory_mib)
        if gpu.is_instance:
            return GpuSample(None, round(memory_mib, 1), None)
        power_w = board_power_w(gpu.type) * (_IDLE_SHARE + (1 - _IDLE_SHARE) * whole)
        return GpuSample(round(100 * whole, 1), round(memory_mib, 1), round(power_w, 1))

    def _share(self, part: PartUse, asked: float) -> float:
        wanted = (part.cpu_cores + part.wait_cores) / len(part.gpus) / self._core_share
        return min(response_at(part) * traffic_slows(part, asked), wanted)


def _memory_mib(part: PartUse) -> float:
    return part.memory_mib / len(part.gpus) + (part.gpu_use[1] if part.gpu_use else 0.0)
