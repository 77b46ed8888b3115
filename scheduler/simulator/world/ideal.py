"""A job's time on its own equal part of the cluster, for finish-time fairness (Themis; Hops 4.3): rho = JCT / ideal.

With N live jobs on average while it was there, an equal part is G / N GPUs. The job runs there at the largest size that
it accepts and that fits the part; when even R_1 does not, it has R_1 for that part of the time. Its speed is the mean
over the GPU types that it may use, weighted by their GPUs. A CPU job's ideal is its undisturbed time: it asks for no GPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scheduler.model import Job, Node
from scheduler.simulator.load import Load, rate_of
from scheduler.simulator.world.truth import Spot


class Ideal:
    """Answers for one cluster."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._gpus: dict[str, int] = {}
        self._by_type: dict[str, list[Node]] = {}
        for node in nodes:
            if node.gpus_total:
                name = node.gpu_type or ""
                self._gpus[name] = self._gpus.get(name, 0) + node.gpus_total
                self._by_type.setdefault(name, []).append(node)
        for own in self._by_type.values():
            own.sort(key=lambda node: (-node.gpus_total, node.id))
        self._cpu = max(nodes, key=lambda node: (node.cores_total, -node.id), default=None)

    def time_s(self, load: Load, jobs: float) -> float | None:
        """Seconds with `jobs` live jobs on average; None when the cluster has no GPU for it."""
        job = load.traced.job
        if job.is_cpu:
            spots = [] if self._cpu is None else [Spot(self._cpu.id, self._cpu.gpu_type, 0, job.cores)]
            return load.traced.work / rate_of(load, spots) if spots else None
        part = sum(self._gpus.values()) / max(1.0, jobs)
        size = max((size for size in job.requirement if size <= part), default=job.min_gpus)
        rate = self.mean_rate(load, size)
        return None if rate is None else load.traced.work / rate / min(1.0, part / size)

    def mean_rate(self, load: Load, size: int) -> float | None:
        """Its rate with `size` GPUs, on as few nodes as hold them; None when no type that it may use has as many."""
        job = load.traced.job
        counts: Mapping[str, int] = {
            name: count for name, count in self._gpus.items() if count >= size and job.may_use(name)
        }
        total = sum(counts.values())
        if not total:
            return None
        return sum(count * rate_of(load, self._spots(job, name, size)) for name, count in counts.items()) / total

    def unit_rate(self, load: Load) -> float:
        """The work a second that counts as one GPU's worth (a CPU job: as one): by its smallest size, undisturbed."""
        if load.traced.job.is_cpu:
            return 1.0
        rate = self.mean_rate(load, load.traced.job.min_gpus)
        return 1.0 if rate is None else rate / load.traced.job.min_gpus

    def _spots(self, job: Job, name: str, size: int) -> list[Spot]:
        spots: list[Spot] = []
        left = size
        for node in self._by_type[name]:
            gpus = min(left, node.gpus_total)
            spots.append(Spot(node.id, name, gpus, min(node.cores_total, gpus * job.cores)))
            left -= gpus
            if not left:
                break
        return spots
