"""GPUs and memory of a virtual node: their figures are computed from the real processes that hold them. Nothing is random.

The use of a virtual GPU is the CPU time that its processes had or waited for, divided by the GPUs that they hold. Time
they waited for a core counts, because a virtual node declares more cores than the machine has. So one process that
computes without pause fills one GPU. With `core-percent`, that share of a core fills it: jobs read the share in
BERTH_VIRTUAL_PACE and sleep for the rest, as a training waits for its GPU. The use is smoothed over about three seconds,
as NVML's is. Memory is that of the processes, spread over their GPUs, and the amount that the job declares (VIRTUAL_GPU).
Power grows linearly from idle to board power. An instance (MIG) shows only its memory, as with a real driver.

Where several parts share a GPU their uses and their memory add up. They take turns of equal length (max-min fair), and each
change of turn costs: a job that wants less than its turn is not held back, the others share the rest equally. Each neighbour
costs `SWITCHING` by its own use: contexts are changed and caches emptied. A test holds this law and the simulator's
(`scheduler/simulator/sharing/laws.py`, `InTurns`) to the same figures. `speeds` gives each part's speed, and the part's job,
which keeps to it as to its pace, reads it from BERTH_VIRTUAL_SPEED_FILE.

A job may say how a virtual GPU answers to its CPU cores: VIRTUAL_RESPONSE in its environment is the part of full speed at
1, 2, 3 ... cores a GPU, as a data loader would make it. No more than that part of the GPU is then used, by the cores that
the part truly has.

`VIRTUAL_TRAFFIC=GB_S[,SENSITIVITY]` is what it draws from the node's memory, with the cores that it began with and while it
computes; with fewer cores, or while it sleeps, it draws less in proportion. When all jobs of the node ask for more than
`SATURATED` of its bandwidth, a job on GPUs loses speed, up to its sensitivity when they ask for twice that: the law that the
simulator has for CODA's Figure 7.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from workers.telemetry.sampler import NO_LINKS, GpuDetails, GpuFound, GpuSample, GpuUse, PartUse
from workers.telemetry.traffic import Traffic

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from workers.protocol.inventory import Links

GPU_USE, SPEED_FILE = "VIRTUAL_GPU", "gpu-speed"
"""A virtual node's job declares `USE[,MIB]`: the part of a GPU that it keeps busy, and the memory that it takes
of it beside its processes' own. And the file that tells it the part of its speed that is left beside its neighbours."""
SWITCHING = 0.05
MOST_MIB = 2**24


def use_parse(text: str) -> tuple[float, ...]:
    """Read VIRTUAL_GPU: (use above 0 to 1, MiB); nothing where it is not that."""
    try:
        figures = [float(part) for part in text.split(",")]
    except ValueError:
        return ()
    use, mib = (*figures, 0.0)[:2]
    return (use, mib) if len(figures) <= 2 and 0 < use <= 1 and 0 <= mib <= MOST_MIB else ()


def speeds_in_turns(wanted: Sequence[float]) -> list[float]:
    """Return the part of its own speed at which each runs. `wanted`: the part of the GPU that each uses without neighbours."""
    total = math.fsum(wanted)
    most = _turn(wanted) if total > 1.0 else 1.0
    return [1.0 / (max(1.0, own / most) + SWITCHING * (total - own)) for own in wanted]


def _turn(wanted: Sequence[float]) -> float:
    """Return the most that each gets: `sum(min(own, turn)) = 1`. More than the whole is wanted."""
    given, rising = 0.0, sorted(wanted)
    for place, own in enumerate(rising):
        each = (1.0 - given) / (len(rising) - place)
        if each <= own:
            return each
        given += own
    return 1.0  # only by rounding: just the whole is wanted


TRAFFIC = "VIRTUAL_TRAFFIC"
SATURATED = 0.75
MOST_GB_S = 1e5
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


def traffic_parse(text: str, *, cores: int) -> tuple[float, ...]:
    """Read VIRTUAL_TRAFFIC: (GB/s, sensitivity, the cores at which it draws that); nothing where it is not that."""
    try:
        figures = [float(part) for part in text.split(",")]
    except ValueError:
        return ()
    gb_s, sensitivity = (*figures, 0.0)[:2]
    if len(figures) > 2 or not 0 <= gb_s <= MOST_GB_S or not 0 <= sensitivity <= 1 or not cores:
        return ()
    return (gb_s, sensitivity, float(cores))


def traffic_slows(part: PartUse, asked: float) -> float:
    """Return the part of its speed that is left to a part where `asked` of the node's bandwidth is asked for."""
    if not part.traffic:
        return 1.0
    beyond = min(1.0, max(0.0, asked / SATURATED - 1.0))
    return 1.0 - part.traffic[1] * beyond


class SimulatedTraffic:
    """See `TrafficMeter`. `core_share`: the part of a real core that full work on one declared core, or GPU, takes."""

    def __init__(self, *, gb_s: float, core_share: float) -> None:
        self._gb_s, self._core_share = gb_s, core_share

    def read_traffic(self, uses: Mapping[str, PartUse]) -> Traffic:
        """Where more than the bandwidth is asked for, each part gets its proportion."""
        asked = {attempt: self._asks(use) for attempt, use in uses.items()}
        total = math.fsum(asked.values())
        scale = 100 / max(1.0, total)
        return Traffic(total * scale, {attempt: share * scale for attempt, share in asked.items()})

    def sum_asked(self, parts: Iterable[PartUse]) -> float:
        return math.fsum(map(self._asks, parts))

    def _asks(self, part: PartUse) -> float:
        if not part.traffic:
            return 0.0
        gb_s, _, cores = part.traffic
        works = (part.cpu_cores + part.wait_cores) / self._core_share / (len(part.gpus) or part.cores or cores)
        return gb_s * min(1.0, works) * (part.cores or cores) / cores / self._gb_s


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
        return NO_LINKS

    def trouble(self) -> str | None:
        return None

    def sample(self, parts: Sequence[PartUse]) -> dict[int, GpuSample]:
        asked = self._traffic.sum_asked(parts) if self._traffic else 0.0
        holders: dict[int, list[PartUse]] = {}
        for part in parts:
            for gpu in part.gpus:
                holders.setdefault(gpu, []).append(part)
        self._shares = {
            (part.attempt, gpu): self._shares.get((part.attempt, gpu), 0.0) for part in parts for gpu in part.gpus
        }
        return {gpu.index: self._sample(gpu, holders.get(gpu.index, []), asked) for gpu in self._gpus}

    def read_details(self, parts: Sequence[PartUse]) -> GpuDetails:
        """Return each part's use of its GPUs. A virtual GPU has no clocks, temperature or errors, and none are made up."""
        known = {gpu.index: gpu for gpu in self._gpus}
        uses: dict[str, dict[int, GpuUse]] = {}
        for part in parts:
            for gpu in part.gpus:
                percent = round(100 * self._shares.get((part.attempt, gpu), 0.0), 1)
                if gpu in known:
                    use = GpuUse(_memory_mib(part), None if known[gpu].is_instance else percent)
                    uses.setdefault(part.attempt, {})[gpu] = use
        return GpuDetails(uses=uses)

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
