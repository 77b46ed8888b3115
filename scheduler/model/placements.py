"""Resources of nodes that a job may have or has: in numbers (a configuration's shares) and with their ids (its pieces)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scheduler.model.parts import HeldPart


@dataclass(frozen=True, slots=True)
class Share:
    """A configuration's part of one node, in numbers only."""

    node: int
    gpus: int
    cores: int
    memory_mib: int


@dataclass(frozen=True, slots=True)
class Piece:
    """A job's concrete part of one node: indices of the GPUs that it has for itself, core ids, memory; or `part` of a GPU."""

    node: int
    gpus: tuple[int, ...]
    cores: tuple[int, ...]
    memory_mib: int
    part: HeldPart | None = None

    @property
    def gpu_count(self) -> int:
        """How many GPUs it computes on."""
        return len(self.gpus) if self.part is None else 1

    @property
    def gpu_units(self) -> float:
        """How many GPUs it holds, a part of one in thousandths."""
        return len(self.gpus) if self.part is None else self.part.compute / 1000


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a job runs: one piece per node, in node order (rank 0 first)."""

    job: int
    pieces: tuple[Piece, ...]

    @property
    def gpus(self) -> int:
        """On how many GPUs it computes."""
        return sum(piece.gpu_count for piece in self.pieces)

    @property
    def cores(self) -> int:
        return sum(len(piece.cores) for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class Configuration:
    """A possible placement `{node: (gpus, cores, memory)}` with its estimated throughput T and where that came from."""

    job: int
    shares: tuple[Share, ...]
    throughput: float
    source: str

    @property
    def gpus(self) -> int:
        return sum(share.gpus for share in self.shares)

    @property
    def cores(self) -> int:
        return sum(share.cores for share in self.shares)


@dataclass(frozen=True, slots=True)
class Reservation:
    """Nodes kept for a job until the time at which it is expected to start there (the snapshot's clock, seconds)."""

    job: int
    nodes: frozenset[int]
    until_s: float
    tenant: int = 0  # the job's
