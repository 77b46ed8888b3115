"""Resources of nodes that a job may have or has: in numbers (a configuration's shares) and with their ids (its pieces).

*Parts of GPUs* (algorithms.md section 11): a GPU is shared or it is handed out whole, never both; `Node.gpus_total` and
`Node.idle_gpus` count only those handed out whole. Compute is counted in thousandths of a GPU, memory in MiB.
"""

from __future__ import annotations

from dataclasses import dataclass

WHOLE = 1000
"""Thousandths of a GPU."""


@dataclass(frozen=True, slots=True)
class GpuPart:
    """A job's request of one shared GPU. `critical`: its answers are waited for, so it always gets all the memory it asks for.

    `harvest`: it may be given less memory than it asks for, as much as its signature was seen to use; it can be run again, and
    was never ended for that. `apart_from`: signatures beside which it was ended for memory.
    """

    compute: int
    memory_mib: int
    critical: bool = False
    harvest: bool = False
    apart_from: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class HeldPart:
    """An attempt's holding of a shared GPU: the GPU's index on its node, thousandths, MiB."""

    gpu: int
    compute: int
    memory_mib: int


@dataclass(frozen=True, slots=True)
class Holder:
    """A live attempt on a shared GPU. `used_mib`: of the GPU's memory, as far as it is known; `ran_s`: since it started.

    `harvest`: it may be left less memory than it holds, as `GpuPart` says, and its present use is known.
    """

    job: int
    tenant: int
    signature: str
    compute: int
    memory_mib: int
    used_mib: float = 0.0
    apart_from: frozenset[str] = frozenset()
    ran_s: float = 0.0
    harvest: bool = False


@dataclass(frozen=True, slots=True)
class Regrant:
    """A running job gives memory of its shared GPU back: from now on it holds `memory_mib`."""

    job: int
    memory_mib: int


@dataclass(frozen=True, slots=True)
class PairSeen:
    """How a signature ran beside another on a GPU: its time there over its time on an idle GPU, the number of records, and their
    age.
    """

    slowdown: float
    count: int
    age_s: float = 0.0


@dataclass(frozen=True, slots=True)
class PartedGpu:
    """A GPU that several jobs may share. `memory_used`: the latest samples of its used memory (MiB), oldest first.

    Not `open` = it gets no new jobs.
    """

    index: int
    memory_mib: int
    holders: tuple[Holder, ...] = ()
    memory_used: tuple[float, ...] = ()
    open: bool = True

    @property
    def compute_left(self) -> int:
        return WHOLE - sum(each.compute for each in self.holders)

    @property
    def memory_left_mib(self) -> int:
        return self.memory_mib - sum(each.memory_mib for each in self.holders)


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
