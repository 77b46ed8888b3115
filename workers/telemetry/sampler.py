"""What a source of GPU figures must do. There are two: NVML and the simulated one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from workers.protocol.wire import Links


class GpuFailedError(Exception):
    """The machine has GPUs, but they cannot be read. The text says which, and why."""


@dataclass(frozen=True, slots=True)
class GpuFound:
    """A GPU as the inventory names it."""

    index: int
    uuid: str
    type: str
    memory_mib: int


@dataclass(frozen=True, slots=True)
class GpuSample:
    """One second of one GPU; None where it could not be measured, never 0 instead."""

    utilisation: float | None  # per cent of the time that a kernel ran
    memory_mib: float | None
    power_w: float | None


@dataclass(frozen=True, slots=True)
class PartUse:
    """One second of one running part, from its shim."""

    gpus: tuple[int, ...]
    cpu_cores: float  # mean cores in use
    wait_cores: float  # mean number of processes that were ready but had no core
    memory_mib: float
    cores: int = 0  # that it has by the last order that holds; 0: not known
    response: tuple[float, ...] = ()  # of a virtual node's job: part of full speed at 1, 2 ... cores a GPU


class GpuSampler(Protocol):
    def gpus(self) -> list[GpuFound]:
        """Return the GPUs; an empty list on a machine without GPUs."""

    def links(self) -> Links:
        """Return what is known of the links between the GPUs."""

    def sample(self, parts: list[PartUse]) -> dict[int, GpuSample]:
        """Return the present figures by GPU index. `parts`: the parts that run here."""
