"""A job signature's measurements on a GPU type, side by side: the price of spreading, and what other sizes tell.

    rho = T_per_gpu(aggregated {a:1}) / T_per_gpu(distributed {a:1, b:1})        (Hops eq. 10)

Where one of the two was not measured, like is compared with like: the smallest number of GPUs that was measured on one
node and on several (the fewest). One GPU is never compared with many: what a run loses to its number of GPUs it would
lose on one node as well.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.estimator.tables import Cell, CellKey

SCALING_EXPONENT = -0.1
"""How per-GPU throughput falls with the GPU count r, by assumption."""


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

    def over(self, gpus: int, nodes: int) -> float | None:
        """Per-GPU throughput of `gpus` GPUs judged by other numbers of GPUs on as many nodes; None without any.

        The nearest by ratio (of two the smaller), changed as by assumption, r^-0.1; else that of an unknown number.
        """
        sizes = self.distributed.get(nodes, {})
        known = [each for each in sizes if each is not None]
        if not known:
            return sizes.get(None)
        nearest = min(known, key=lambda each: (max(each / gpus, gpus / each), each))
        return float(sizes[nearest] * (gpus / nearest) ** SCALING_EXPONENT)


def by_type(cells: Mapping[CellKey, Cell]) -> dict[str, dict[str, Measured]]:
    """Signature -> GPU type -> what was measured; cells of single nodes are left out."""
    found: dict[str, dict[str, Measured]] = {}
    for key, cell in cells.items():
        if isinstance(key.resource, str):
            found.setdefault(key.signature, {}).setdefault(key.resource, Measured()).add(key, cell.mean)
    return found
