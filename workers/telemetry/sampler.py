"""The values of measurements, rates from counters, and the interface of a source of GPU figures: NVML or a simulated one."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from workers.protocol.inventory import Links


class Rates:
    """Remembers each counter's last value."""

    def __init__(self) -> None:
        self._before: dict[Hashable, tuple[float, float]] = {}

    def rate(self, name: Hashable, value: float | None, at_s: float) -> float | None:
        """Return the growth a second since the last call; None at the first one, and after a step back."""
        before = self._before.pop(name, None)
        if value is None:
            return None
        self._before[name] = (value, at_s)
        if before is None or value < before[0] or at_s <= before[1]:
            return None
        return (value - before[0]) / (at_s - before[1])

    def keep(self, names: set[Hashable]) -> None:
        self._before = {name: each for name, each in self._before.items() if name in names}


PROFILE = re.compile(r"(?:^|[\s_:-])(?:\d+c\.)?\d+g\.\d+gb(?:[+-][a-z][a-z.]*)*$", re.IGNORECASE)
"""How a type's name ends whose GPUs are instances (MIG), as portal and core say it too."""


@dataclass(frozen=True, slots=True)
class GpuFound:
    """A GPU as the inventory names it."""

    index: int
    uuid: str
    type: str
    memory_mib: int
    whole_uuid: str = ""  # of a MIG instance: the GPU that it is a part of
    minor: int | None = None  # N of its file /dev/nvidiaN

    @property
    def is_instance(self) -> bool:
        """Whether it is an instance (MIG), of which a driver tells neither use nor power."""
        return PROFILE.search(self.type) is not None


@dataclass(frozen=True, slots=True)
class GpuSample:
    """One reading of one GPU; None where it could not be measured, never 0 instead. Counters: since the driver was loaded."""

    utilisation: float | None  # per cent of the time that a kernel ran (SM)
    memory_mib: float | None
    power_w: float | None
    pcie_tx_mb_s: float | None = None  # 10^6 bytes a second that the GPU sent
    pcie_rx_mb_s: float | None = None
    energy_j: float | None = None
    temperature_c: float | None = None
    clock_mhz: float | None = None  # of the SMs
    memory_clock_mhz: float | None = None
    throttle: float | None = None  # NVML's bits of why the clocks are low
    ecc_corrected: float | None = None
    ecc_uncorrected: float | None = None


FAST = ("utilisation", "memory_mib", "power_w")
"""Read at each heartbeat; the other figures move slowly or cost much, and are read once a second at most."""


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process that computes on a GPU, as NVML tells it. None: the driver does not say."""

    pid: int
    memory_mib: float | None
    utilisation: float | None


@dataclass(frozen=True, slots=True)
class GpuUse:
    """A part's use of a GPU that it holds. None: not known."""

    memory_mib: float | None
    utilisation: float | None


@dataclass(frozen=True, slots=True)
class GpuTrouble:
    """Why a GPU is not well.

    `check`: `nvml` (it does not answer), `xid` (an error of NVIDIA's list, by its `code`), `ecc` (with their count),
    `temperature`.
    """

    index: int
    check: str
    detail: str
    code: int = 0


@dataclass(frozen=True, slots=True)
class GpuDetails:
    """The slow figures of all GPUs: measures, processes and present troubles.

    `uses`: each part's use of its virtual GPUs, on which no processes are, by attempt and index.
    """

    samples: dict[int, GpuSample] = field(default_factory=dict)
    processes: dict[int, list[GpuProcess]] = field(default_factory=dict)
    troubles: tuple[GpuTrouble, ...] = ()
    uses: dict[str, dict[int, GpuUse]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartUse:
    """One second of one running part, from its shim."""

    gpus: tuple[int, ...]
    cpu_cores: float  # mean cores in use
    wait_cores: float  # mean number of processes that were ready but had no core
    memory_mib: float
    read_mb_s: float | None = None  # 10^6 bytes a second from disks; None: its shim does not tell
    write_mb_s: float | None = None
    cores: int = 0  # that it has by the last order that holds; 0: not known
    response: tuple[float, ...] = ()  # of a virtual node's job: part of full speed at 1, 2 ... cores a GPU
    traffic: tuple[float, ...] = ()  # and its traffic: see `workers.telemetry.simulated`
    attempt: str = ""
    gpu_use: tuple[float, ...] = ()  # and its use of a GPU: see `workers.telemetry.simulated`


class GpuSampler(Protocol):
    def gpus(self) -> list[GpuFound]:
        """Return the GPUs; an empty list on a machine without GPUs."""

    def links(self) -> Links:
        """Return the links between the GPUs."""

    def trouble(self) -> str | None:
        """Return why GPUs that the machine has cannot be used at all; None when there is no such thing."""

    def sample(self, parts: Sequence[PartUse]) -> dict[int, GpuSample]:
        """Return the figures of FAST by GPU index, the others None. `parts`: the parts that run here."""

    def read_details(self, parts: Sequence[PartUse]) -> GpuDetails:
        """Return all that there is to know; takes longer."""


NO_LINKS: Links = {"nvlink_gbps": None, "pcie_generation": None, "pcie_lanes": None, "network_mbps": None}


class NoGpus:
    """A `GpuSampler` without GPUs, for a machine whose driver does not answer; `trouble` says so."""

    def __init__(self, trouble: str) -> None:
        self._trouble = trouble

    def gpus(self) -> list[GpuFound]:
        return []

    def links(self) -> Links:
        return NO_LINKS

    def trouble(self) -> str | None:
        return self._trouble

    def sample(self, parts: Sequence[PartUse]) -> dict[int, GpuSample]:
        return {}

    def read_details(self, parts: Sequence[PartUse]) -> GpuDetails:
        return GpuDetails()
