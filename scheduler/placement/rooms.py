"""The rest of one node, and the rest of a tenant's quotas."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scheduler.model import Piece, Share

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.model import Node


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


@dataclass(slots=True)
class Room:
    """The rest of one node. GPU indices and core ids are taken from the front, so that equal plans take equal ones."""

    node: Node
    gpus: tuple[int, ...]
    cores: tuple[int, ...]
    memory_mib: int
    tenants: frozenset[int]
    kept: Withheld = field(default_factory=Withheld)

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

    def with_kept(self) -> Room:
        """The room together with its withheld resources."""
        kept = self.kept
        gpus, cores = tuple(sorted(self.gpus + kept.gpus)), tuple(sorted(self.cores + kept.cores))
        return Room(self.node, gpus, cores, self.memory_mib + kept.memory_mib, self.tenants)


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
