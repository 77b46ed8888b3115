"""Configurations (n nodes, r GPUs, type t) of Sia (SOSP '23, 3.3), and the sizes a job may be given in a round.

On N nodes of R GPUs of a type: (1, 1), (1, 2), (1, 4) ... up to R, then whole nodes (2, 2R) ... (N, NR). A job takes those
whose r its requirement set holds; a rigid job (3.4, "limited adaptivity") its own r on as few nodes as hold it. Nodes of a
type that differ in GPUs are types of their own here.

*Deviation*: a job of several sizes, none of them among Sia's, is given all of its own as a rigid job is its one; and since a
set may have holes, a job may always grow to its next size, not only to twice the GPUs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scheduler.model import Job, Node

GROWTH = 2
"""The factor by which a job may grow over the most GPUs that it has run on (3.2): it starts with its fewest."""


@dataclass(frozen=True, slots=True, order=True)
class Bucket:
    """Nodes of a type with as many GPUs each."""

    gpu_type: str
    node_gpus: int


@dataclass(frozen=True, slots=True, order=True)
class Kind:
    """A configuration: a number of a bucket's GPUs, on as few nodes as hold them."""

    bucket: Bucket
    gpus: int

    @property
    def nodes(self) -> int:
        return -(-self.gpus // self.bucket.node_gpus)


def buckets_of(nodes: Iterable[Node]) -> dict[Bucket, list[Node]]:
    """GPU nodes by bucket, in the order of types and ids."""
    found: dict[Bucket, list[Node]] = {}
    for node in sorted(nodes, key=lambda each: each.id):
        if node.gpus_total and node.gpu_type is not None:
            found.setdefault(Bucket(node.gpu_type, node.gpus_total), []).append(node)
    return dict(sorted(found.items()))


def sia_sizes(node_gpus: int, nodes: int) -> set[int]:
    """R of Sia's configurations on nodes of a bucket."""
    powers = {1 << k for k in range(node_gpus.bit_length())}
    return powers | {node_gpus * count for count in range(1, nodes + 1)}


def kinds_of(job: Job, buckets: dict[Bucket, list[Node]], *, every_size: bool) -> list[Kind]:
    """The job's configurations on idle and busy nodes. `every_size`: one for each of its requirements, as Hops ran Sia."""
    usable = {each: nodes for each, nodes in buckets.items() if job.may_use(each.gpu_type)}
    own = [
        Kind(each, size)
        for each, nodes in usable.items()
        for size in job.requirement
        if size <= each.node_gpus * len(nodes)
    ]
    if every_size or len(job.requirement) == 1:
        return own
    sizes = {each: sia_sizes(each.node_gpus, len(nodes)) for each, nodes in usable.items()}
    return [kind for kind in own if kind.gpus in sizes[kind.bucket]] or own


def within_growth(kinds: Sequence[Kind], most_gpus: int) -> list[Kind]:
    """Those that a job may be given that has run on `most_gpus` at most (0 = it has not run)."""
    sizes = sorted({kind.gpus for kind in kinds})
    larger = [size for size in sizes if size > most_gpus]
    limit = max(GROWTH * most_gpus, larger[0] if larger else most_gpus)
    return [kind for kind in kinds if kind.gpus <= limit]
