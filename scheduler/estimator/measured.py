"""A job signature's measurements on a GPU type, side by side: the price of spreading, and the estimate by other sizes.

    rho = T_per_gpu(aggregated {a:1}) / T_per_gpu(distributed {a:1, b:1})        (Hops eq. 10)

Where one of the two was not measured, like is compared with like: the smallest number of GPUs that was measured on one node and
on several (the fewest). One GPU is never compared with many: a run would lose by its number of GPUs on one node as well.

Measured throughput in two tables per job signature (Hops 3.3; algorithms.md section 2).

Per entity (node) and per GPU type: an *aggregated* table by GPU count, for runs on one node, and a *distributed* one by GPUs in
all and nodes. A cell keeps count, mean and variance (Welford). Every measurement goes into the entity's and the type's.
*Deviation*: Hops' distributed table has only nodes, so that 2 and 16 GPUs on two nodes would share a cell (docs/decisions/0014).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, field
from statistics import fmean
from types import MappingProxyType
from typing import TYPE_CHECKING

from scheduler.model.speeds import Cell, CellKey

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scheduler.model import Job


def signature_of(tenant: int, model_label: str | None, job: int) -> str:
    """The name of comparable jobs: tenant and model label when given, else only the job and its restarts."""
    return f"tenant:{tenant}:{model_label}" if model_label else f"job:{job}"


def tenant_of(signature: str) -> int | None:
    """Whose model label it is; None for a job's own."""
    kind, _, rest = signature.partition(":")
    return int(rest.partition(":")[0]) if kind == "tenant" else None


def signature(job: Job) -> str:
    return signature_of(job.tenant, job.model_label, job.id)


def cell_key(signature: str, resource: int | str, gpus: int, nodes: int) -> CellKey:
    if nodes == 1:
        return CellKey(signature, resource, gpus=gpus)
    return CellKey(signature, resource, gpus=gpus, nodes=nodes)


def record(
    cells: Mapping[CellKey, Cell],
    signature: str,
    where: Sequence[tuple[int, str]],
    gpus: int,
    per_gpu: float,
) -> dict[CellKey, Cell]:
    """The cells that a measured run changes. `where`: (node id, GPU type) of each of its nodes."""
    keys = {cell_key(signature, node, gpus, len(where)) for node, _ in where}
    keys |= {cell_key(signature, gpu_type, gpus, len(where)) for _, gpu_type in where}
    return {key: cells.get(key, Cell()).add(per_gpu) for key in keys}


SCALING_EXPONENT = -0.1
"""How per-GPU throughput falls with the GPU count r, by assumption."""

NO_TYPES: Mapping[str, Measured] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Measured:
    """Mean per-GPU throughput in samples per second, by GPUs in all on one node, and by nodes and GPUs on several."""

    aggregated: dict[int, float] = field(default_factory=dict)
    distributed: dict[int, dict[int | None, float]] = field(default_factory=dict)  # None: number of GPUs not kept

    def add(self, key: CellKey, mean: float) -> None:
        if key.nodes is not None:
            self.distributed.setdefault(key.nodes, {})[key.gpus] = mean
        elif key.gpus is not None:
            self.aggregated[key.gpus] = mean

    def sensitivity(self) -> float | None:
        """rho; None when no number of GPUs was measured both ways."""
        one, two = self.aggregated.get(1), self.distributed.get(2, {}).get(2)
        if one is not None and two is not None:
            return one / two
        for gpus in sorted(self.aggregated):
            for nodes in sorted(self.distributed):
                if (spread := self.distributed[nodes].get(gpus)) is not None:
                    return self.aggregated[gpus] / spread
        return None

    def on_one(
        self, gpus: int, usual: float = SCALING_EXPONENT, types: Mapping[str, Measured] = NO_TYPES
    ) -> float | None:
        """Per-GPU throughput of `gpus` GPUs on one node judged by other numbers of GPUs there; None without any.

        By the power of r between (beyond: of) the two nearest sizes; where one size was measured by that of the job's other
        `types`, else by the `usual` one (see `scaling`).
        """
        sizes = sorted(self.aggregated)
        if not sizes:
            return None
        after = min(max(bisect_left(sizes, gpus), 1), len(sizes) - 1)
        several = len(sizes) > 1
        exponent = (
            self._exponent(sizes[after - 1], sizes[after]) if several else _elsewhere(sizes[0], gpus, usual, types)
        )
        nearest = min(sizes, key=lambda each: (max(each / gpus, gpus / each), each))
        return float(self.aggregated[nearest] * (gpus / nearest) ** exponent)

    def slope(self) -> float | None:
        """The exponent from the smallest to the largest size measured on one node; None without two."""
        return self._exponent(min(self.aggregated), max(self.aggregated)) if len(self.aggregated) > 1 else None

    def _exponent(self, low: int, high: int) -> float:
        """Between two sizes measured on one node."""
        return _exponent(self.aggregated[low], self.aggregated[high], high / low)

    @property
    def both_ways(self) -> bool:
        """Whether it ran on one node and on several, of any size: then the measured speeds decide."""
        return bool(self.aggregated) and any(gpus is not None for sizes in self.distributed.values() for gpus in sizes)

    def over(self, gpus: int, nodes: int, usual: float = SCALING_EXPONENT) -> float | None:
        """Per-GPU throughput of `gpus` GPUs judged by other numbers of GPUs on as many nodes, else on the nearest number of
        several nodes; None without any.

        The nearest by ratio (of two the smaller), changed as is `usual`; else that of an unknown number.
        """
        near = sorted(self.distributed, key=lambda each: (max(each / nodes, nodes / each), each))
        sizes = self.distributed[near[0]] if near else {}
        known = [each for each in sizes if each is not None]
        if not known:
            return sizes.get(None)
        nearest = min(known, key=lambda each: (max(each / gpus, gpus / each), each))
        return float(sizes[nearest] * (gpus / nearest) ** usual)


def _exponent(one: float, two: float, ratio: float) -> float:
    """The exponent of per-GPU throughput from one size to `ratio` times it: more GPUs lose none to all of their gain."""
    return min(0.0, max(-1.0, math.log(two / one) / math.log(ratio)))


def _elsewhere(size: int, gpus: int, usual: float, types: Mapping[str, Measured]) -> float:
    """The exponent between two sizes on one node by the types where several were measured; else what is usual."""
    known = [each for _, each in sorted(types.items()) if len(each.aggregated) > 1 and size != gpus]
    pairs = [(each.on_one(size), each.on_one(gpus)) for each in known]
    found = [_exponent(one, two, gpus / size) for one, two in pairs if one and two]
    return fmean(found) if found else usual


def by_node(cells: Mapping[CellKey, Cell]) -> dict[str, list[tuple[int, int, int, float]]]:
    """Signature -> (node, GPUs in all, nodes, mean) of the measurements on single nodes."""
    found: dict[str, list[tuple[int, int, int, float]]] = {}
    for key, cell in cells.items():
        if isinstance(key.resource, int) and key.gpus is not None:
            found.setdefault(key.signature, []).append((key.resource, key.gpus, key.nodes or 1, cell.mean))
    return found


def by_type(cells: Mapping[CellKey, Cell]) -> dict[str, dict[str, Measured]]:
    """Signature -> GPU type -> what was measured; cells of single nodes are left out."""
    found: dict[str, dict[str, Measured]] = {}
    for key, cell in cells.items():
        if isinstance(key.resource, str):
            found.setdefault(key.signature, {}).setdefault(key.resource, Measured()).add(key, cell.mean)
    return found
