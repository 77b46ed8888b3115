"""A cluster that has grown over time: nodes of 1 to 16 GPUs, six types, few cores on half of them, 30 % partly busy.

Each node is drawn independently: one of the six types; 1, 2, 4, 8 or 16 GPUs; half of the nodes have 16 cores per GPU, more
than any job wants, the others 2 to 6. Three in ten hold jobs on some of their GPUs, with 1 to 10 cores for each, if there are
as many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.model import Node

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.random import Generator

GPU_SPEEDS: Mapping[str, float] = {"a": 1.0, "b": 1.3, "c": 1.7, "d": 2.2, "e": 2.8, "f": 3.5}
NODE_GPUS = (1, 2, 4, 8, 16)
AMPLE_CORES, SCARCE_CORES = 16, (2, 6)
PARTLY_BUSY = 0.3
HELD_CORES = (1, 10)
MEMORY_MIB = 1 << 20


def mixed_nodes(gpus: int, rng: Generator) -> tuple[Node, ...]:
    """Draw nodes until they have `gpus` GPUs, or up to 15 more."""
    made: list[Node] = []
    left = gpus
    while left > 0:
        made.append(_node(len(made) + 1, rng))
        left -= made[-1].gpus_total
    return tuple(made)


def _node(number: int, rng: Generator) -> Node:
    gpus = int(rng.choice(NODE_GPUS))
    per_gpu = AMPLE_CORES if rng.random() < 0.5 else int(rng.integers(*SCARCE_CORES, endpoint=True))
    held = int(rng.integers(1, gpus, endpoint=True)) if rng.random() < PARTLY_BUSY else 0
    cores = gpus * per_gpu
    held_cores = min(cores, held * int(rng.integers(*HELD_CORES, endpoint=True)))
    return Node(
        id=number,
        name=f"n{number}",
        gpu_type=str(rng.choice(list(GPU_SPEEDS))),
        gpus_total=gpus,
        idle_gpus=tuple(range(held, gpus)),
        cores_total=cores,
        idle_cores=tuple(range(held_cores, cores)),
        memory_total_mib=MEMORY_MIB,
        idle_memory_mib=MEMORY_MIB,
    )
