"""The nodes whose GPUs may be shared, as arrays: what is idle there, and who fits where (algorithms.md section 11).

GPU compute is counted in thousandths of a GPU, cores in thousandths of a core, memory in MiB. A demand of less than
one GPU goes onto one GPU beside others; a demand of one or more takes whole idle GPUs of one node.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from scheduler.simulator.traces.openb import MILLI

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.simulator.traces.openb import Demand

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Host:
    """A node as bought."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    model: str


@dataclass(slots=True)
class Pool:
    """Hosts and what is idle on them; node i of every array is `hosts[i]`. GPUs that a node lacks have nothing idle."""

    hosts: Sequence[Host]
    cpu: Ints = field(init=False)  # idle thousandths of cores, a node
    memory: Ints = field(init=False)  # idle MiB, a node
    gpu: Ints = field(init=False)  # idle thousandths, node x GPU
    gpus: Ints = field(init=False)  # GPUs a node has
    model: Ints = field(init=False)  # index into `models`
    models: tuple[str, ...] = field(init=False)
    changes: list[int] = field(init=False, default_factory=list)  # nodes in the order in which they changed

    def __post_init__(self) -> None:
        self.models = tuple(sorted({host.model for host in self.hosts}))
        self.cpu = np.array([host.cpu_milli for host in self.hosts], dtype=np.int64)
        self.memory = np.array([host.memory_mib for host in self.hosts], dtype=np.int64)
        self.gpus = np.array([host.gpus for host in self.hosts], dtype=np.int64)
        self.model = np.array([self.models.index(host.model) for host in self.hosts], dtype=np.int64)
        slots = np.arange(max((host.gpus for host in self.hosts), default=0))
        self.gpu = np.where(slots[None, :] < self.gpus[:, None], MILLI, 0).astype(np.int64)

    @property
    def capacity(self) -> int:
        """Thousandths of GPU in all."""
        return int(self.gpus.sum()) * MILLI

    @property
    def allocated(self) -> int:
        return self.capacity - int(self.gpu.sum())

    def fits(self, demand: Demand, nodes: Ints) -> Flags:
        """Which of these nodes can take the demand now."""
        fit: Flags = (self.cpu[nodes] >= demand.cpu_milli) & (self.memory[nodes] >= demand.memory_mib)
        if demand.gpus:
            fit &= (self.gpu[nodes] >= demand.gpu_milli).sum(axis=1) >= demand.gpus
            if demand.models:
                allowed = np.array([model in demand.models for model in self.models], dtype=np.bool_)
                fit &= allowed[self.model[nodes]]
        return fit

    def take(self, node: int, gpus: Sequence[int], demand: Demand) -> None:
        """Hand out a demand on these GPUs of a node. ValueError if it does not fit there."""
        idle = self.gpu[node, list(gpus)]
        if len(set(gpus)) != demand.gpus or (idle < demand.gpu_milli).any():
            raise ValueError(f"{demand} does not fit on GPUs {list(gpus)} of {self.hosts[node].name}")
        if self.cpu[node] < demand.cpu_milli or self.memory[node] < demand.memory_mib:
            raise ValueError(f"{demand} needs more cores or memory than idle on {self.hosts[node].name}")
        self._add(node, gpus, demand, -1)

    def give_back(self, node: int, gpus: Sequence[int], demand: Demand) -> None:
        """The job ended: what it held is idle again."""
        self._add(node, gpus, demand, +1)

    def _add(self, node: int, gpus: Sequence[int], demand: Demand, sign: int) -> None:
        self.cpu[node] += sign * demand.cpu_milli
        self.memory[node] += sign * demand.memory_mib
        self.gpu[node, list(gpus)] += sign * demand.gpu_milli
        self.changes.append(node)


def tightest_gpu(pool: Pool, node: int, demand: Demand) -> tuple[int, ...]:
    """Best fit within the node: the GPU with the least idle compute that is enough; for whole GPUs the first idle ones."""
    if demand.gpus == 0:
        return ()
    idle = pool.gpu[node]
    enough = np.flatnonzero(idle >= demand.gpu_milli)
    if demand.shares:
        return (int(enough[np.argmin(idle[enough])]),)
    return tuple(int(gpu) for gpu in enough[: demand.gpus])
