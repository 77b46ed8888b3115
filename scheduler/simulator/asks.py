"""What the waiting jobs ask of a node, and which idle GPUs lack only cores for them (the first kind of section 10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from scheduler.model.instances import serves

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Collection

    from scheduler.simulator.cluster import Cluster, Idle

Ask = tuple[tuple[int, ...], frozenset[str], int, int]
"""Sizes, GPU types, hard cores a GPU, memory."""


Asked = TypeVar("Asked")


def count(counts: Counter[Asked], key: Asked, by: int) -> None:
    """Count the key up or down, and drop it at 0."""
    counts[key] += by
    if not counts[key]:
        del counts[key]


def gpus_short_of_cores(asks: Collection[Ask], cluster: Cluster) -> int:
    """Idle GPUs of nodes that would serve one of the jobs if they had enough idle cores."""
    short = 0
    for number, idle in cluster.idle.items() if asks else ():
        node, gpus = cluster.nodes[number], len(idle.gpus)
        if gpus and node.schedulable and any(_lacks_cores(ask, node.gpu_type, idle) for ask in asks):
            short += gpus
    return short


def _lacks_cores(ask: Ask, gpu_type: str | None, idle: Idle) -> bool:
    sizes, types, least, memory_mib = ask
    if not serves(types, gpu_type) or memory_mib > idle.memory_mib:
        return False
    return any(size <= len(idle.gpus) and len(idle.cores) < size * least for size in sizes)
