"""Speeds of a job that both schedulers know: the truth of the moment, or those that the job has shown.

A speed is a goodput in iterations at M0 a second, by (GPU type, GPUs, nodes): on as few nodes as hold the GPUs, which are then
filled one after another, and over more, as far as so many nodes were measured, spread as evenly as they can be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from research.simulator.sia_rounds.job import RoundJob
    from research.simulator.sia_rounds.training import EpochTraining, Steps
    from scheduler.model import Node
    from scheduler.simulator.world.profiled import Shape

    Table = Mapping[tuple[str, int, int], float]

MOST_GPUS = 64


class Speeds(Protocol):
    """Tells of speeds, sizes and batch sizes."""

    def table(self, job: RoundJob) -> tuple[object, Table]:
        """The speeds of each size that is open to the job now, and a key: tables with the same key are the same."""
        ...

    def is_sure(self, job: RoundJob, where: tuple[str, int, int]) -> bool:
        """Whether the speed there is the truth, or measured there; else it is foretold."""
        ...

    def steps(self, job: RoundJob) -> Steps:
        """How the job trains on what it has now."""
        ...


class Places:
    """The cluster's node kinds: GPUs of a node and nodes of each GPU type, and the sizes that Sia has there (Sia 3.3)."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.kinds: dict[str, tuple[int, int]] = {}
        for node in nodes:
            _, count = self.kinds.get(node.gpu_type or "", (0, 0))
            self.kinds[node.gpu_type or ""] = (node.gpus_total, count + 1)

    def all_gpus(self, gpu_type: str) -> int:
        gpus, nodes = self.kinds[gpu_type]
        return gpus * nodes

    def sizes(self, gpu_type: str, most: int) -> list[int]:
        """Powers of two within a node, whole nodes beyond."""
        gpus, nodes = self.kinds[gpu_type]
        powers = {1 << k for k in range(gpus.bit_length())}
        return sorted(each for each in powers | {gpus * k for k in range(1, nodes + 1)} if each <= most)

    def every_size(self, most: int) -> tuple[int, ...]:
        return tuple(sorted({size for each in self.kinds for size in self.sizes(each, most)}))

    def filled(self, gpu_type: str, size: int) -> Shape:
        whole, rest = divmod(size, self.kinds[gpu_type][0])
        return (self.kinds[gpu_type][0],) * whole + ((rest,) if rest else ())

    def shapes(self, gpu_type: str, size: int, most_nodes: int) -> list[Shape]:
        """Filled, and spread over more nodes."""
        first = self.filled(gpu_type, size)
        more = range(len(first) + 1, min(size, most_nodes, self.kinds[gpu_type][1]) + 1)
        return [first, *(evenly(size, nodes) for nodes in more)]


def evenly(gpus: int, nodes: int) -> Shape:
    each, over = divmod(gpus, nodes)
    return (each + 1,) * over + (each,) * (nodes - over)


class Known:
    """The truth of the moment, for every size."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._tables: dict[tuple[str, int], Table] = {}

    def table(self, job: RoundJob) -> tuple[object, Table]:
        key = (job.training.name, job.epoch)
        if key not in self._tables:
            self._tables[key] = self._table(job.training, job.epoch)
        return key, self._tables[key]

    def _table(self, training: EpochTraining, epoch: int) -> Table:
        most = min(MOST_GPUS, max(map(training.room, self._places.kinds)))
        return {
            (gpu_type, sum(shape), len(shape)): training.best(gpu_type, shape, epoch)[0]
            for gpu_type in self._places.kinds
            for size in self._places.every_size(min(most, self._places.all_gpus(gpu_type)))
            for shape in self._places.shapes(gpu_type, size, training.application.speeds[gpu_type].most_nodes)
        }

    def is_sure(self, job: RoundJob, where: tuple[str, int, int]) -> bool:
        return True

    def steps(self, job: RoundJob) -> Steps:
        return job.training.best(job.gpu_type, job.shape, job.epoch)[1]
