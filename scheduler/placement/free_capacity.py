"""The free capacity of each node, groups of equal nodes, and the rest of a tenant's quotas."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scheduler.model import Node, Piece, Share

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Key = tuple[str | None, int, int, int, int, frozenset[int] | None, frozenset[str], float]

SPEED_STEP = 0.05


@dataclass(frozen=True, slots=True)
class Shortfall:
    """The first resource that fails: which, on which node (None = the tenant's quota), how much is needed and available."""

    resource: str  # gpus | cores | memory_mib | gpu_quota | core_quota | trust
    node: int | None
    needed: float
    available: float


@dataclass(slots=True)
class Withheld:
    """Idle resources of a node that this planning may not use, because they are promised to jobs."""

    gpus: tuple[int, ...] = ()
    cores: tuple[int, ...] = ()
    memory_mib: int = 0


@dataclass(frozen=True, slots=True)
class Offer:
    """The offer of one node; `admits` says whether a tenant's job may be there beside the running ones."""

    node: Node
    gpus: int
    cores: int
    memory_mib: int
    tenants: frozenset[int] = frozenset()

    def admits(self, tenant: int) -> bool:
        return not self.node.exclusive_tenant or self.tenants <= {tenant}


@dataclass(slots=True)
class FreeCapacity:
    """The idle resources of one node. GPU indices and core ids are taken from the front, so that equal plans take equal ones."""

    node: Node
    gpus: tuple[int, ...]
    cores: tuple[int, ...]
    memory_mib: int
    tenants: frozenset[int]
    kept: Withheld = field(default_factory=Withheld)

    @property
    def offer(self) -> Offer:
        return Offer(self.node, len(self.gpus), len(self.cores), self.memory_mib, self.tenants)

    def admits(self, tenant: int) -> bool:
        return not self.node.exclusive_tenant or self.tenants <= {tenant}

    def shortfall(self, share: Share, tenant: int) -> Shortfall | None:
        if not self.admits(tenant):
            return Shortfall("trust", share.node, 1, 0)
        wanted = (share.gpus, share.cores, share.memory_mib)
        offered = (len(self.gpus), len(self.cores), self.memory_mib)
        for resource, needed, available in zip(("gpus", "cores", "memory_mib"), wanted, offered, strict=True):
            if needed > available:
                return Shortfall(resource, share.node, needed, available)
        return None

    def take(self, share: Share, tenant: int) -> Piece:
        piece = Piece(share.node, self.gpus[: share.gpus], self.cores[: share.cores], share.memory_mib)
        self.gpus, self.cores = self.gpus[share.gpus :], self.cores[share.cores :]
        self.memory_mib -= share.memory_mib
        self.tenants |= {tenant}
        return piece

    def withhold(self, share: Share) -> Share:
        """Put the idle part of the share aside, and return it."""
        gpus, cores = min(share.gpus, len(self.gpus)), min(share.cores, len(self.cores))
        memory_mib = min(share.memory_mib, self.memory_mib)
        kept = self.kept
        self.kept = Withheld(
            kept.gpus + self.gpus[:gpus], kept.cores + self.cores[:cores], kept.memory_mib + memory_mib
        )
        self.gpus, self.cores, self.memory_mib = self.gpus[gpus:], self.cores[cores:], self.memory_mib - memory_mib
        return Share(share.node, gpus, cores, memory_mib)

    def give(self, piece: Piece) -> None:
        """Make the piece idle again."""
        self.gpus, self.cores = tuple(sorted(self.gpus + piece.gpus)), tuple(sorted(self.cores + piece.cores))
        self.memory_mib += piece.memory_mib

    def with_kept(self) -> FreeCapacity:
        """The same with its withheld resources."""
        kept = self.kept
        gpus, cores = tuple(sorted(self.gpus + kept.gpus)), tuple(sorted(self.cores + kept.cores))
        return FreeCapacity(self.node, gpus, cores, self.memory_mib + kept.memory_mib, self.tenants)


@dataclass(slots=True)
class Allowance:
    """The rest of a tenant's quotas; None = no quota."""

    gpus: float | None
    cores: int | None

    @property
    def whole_gpus(self) -> int | None:
        """The whole GPUs that a job may still get."""
        return None if self.gpus is None else math.floor(self.gpus)


def largest_nodes(nodes: Iterable[Node]) -> dict[str, int]:
    """GPUs of the largest node of each type, counting nodes that are down: a job is not spread because one is away."""
    largest: dict[str, int] = {}
    for node in nodes:
        if node.gpu_type is not None:
            largest[node.gpu_type] = max(largest.get(node.gpu_type, 0), node.gpus_total)
    return largest


def speed_class(node: Node) -> int:
    """The node's entity factor in steps of 5 %: 20 = as fast as its type."""
    return max(1, round(node.speed / SPEED_STEP))


class EqualNodes:
    """Nodes in groups of equal ones: the same type, speed class, software, end, idle GPUs, cores and memory.

    If a job takes one node, and its speed depends only on the GPU type, it has the same configurations on all nodes of a
    group. Ties go to the lowest id, so it is enough to offer it the first node of each group. A change of a node moves only
    that node to another group, so that starting a job costs no walk over the cluster. `moved`: the code that changes a
    node's free capacity calls it.
    """

    def __init__(self, capacities: Mapping[int, FreeCapacity]) -> None:
        self._capacities = capacities
        self._key: dict[int, Key] = {}
        self._nodes: dict[Key, list[int]] = {}
        self._first: dict[Key, Offer] = {}
        self._sorted: list[Offer] | None = None
        self.idle_gpus: dict[str | None, int] = {}  # by type
        for number in sorted(capacities):
            self._put(number)

    def moved(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            if number in self._capacities:
                self._put(number)

    def offers(self) -> list[Offer]:
        """The first node of each group, by id."""
        if self._sorted is None:
            for key, nodes in self._nodes.items():
                first = self._first.get(key)
                if first is None or first.node.id != nodes[0]:
                    self._first[key] = self._capacities[nodes[0]].offer
            self._sorted = sorted(self._first.values(), key=lambda offer: offer.node.id)
        return self._sorted

    def _put(self, number: int) -> None:
        free = self._capacities[number]
        node = free.node
        exclusive = free.tenants if node.exclusive_tenant else None
        idle = (len(free.gpus), len(free.cores), free.memory_mib)
        key = (node.gpu_type, speed_class(node), *idle, exclusive, node.offers, node.closes_s)
        before = self._key.get(number)
        if before == key:
            return
        if before is not None:
            self._take_off(number, before)
        self._key[number] = key
        insort(self._nodes.setdefault(key, []), number)
        self.idle_gpus[key[0]] = self.idle_gpus.get(key[0], 0) + key[2]
        self._sorted = None

    def _take_off(self, number: int, key: Key) -> None:
        nodes = self._nodes[key]
        del nodes[bisect_left(nodes, number)]
        if not nodes:
            del self._nodes[key]
            self._first.pop(key, None)
        self.idle_gpus[key[0]] -= key[2]
