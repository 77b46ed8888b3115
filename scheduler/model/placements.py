"""Resources of nodes that a job may have or has: in numbers (a configuration's shares) and with their ids (its pieces).

*Parts of GPUs* (algorithms.md section 11): a GPU is shared or it is handed out whole, never both; `Node.gpus_total` and
`Node.idle_gpus` count only those handed out whole. Compute is counted in thousandths of a GPU, memory in MiB.

*Instances*: the parts into which MIG cuts a GPU. NVML names each by its GPU and its profile: `NVIDIA A100-SXM4-40GB MIG 1g.5gb`.
The profile at the end of its type's name tells an instance. A process reaches one instance, and no two of them work together: an
instance takes jobs of one GPU. A job is placed on whole GPUs of the types that it names, or of any; a job that names only
instances gets those. Jobs for which no whole GPU is left may have instances (`scheduler.placement.feasibility`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet


PROFILE = re.compile(r"(?:^|[\s_:-])((?:(\d+)c\.)?(\d+)g\.\d+gb(?:[+-][a-z][a-z.]*)*)$", re.IGNORECASE)
SLICES, SLICES_OF = 7, {"A30": 4, "RTX PRO": 4}
"""The slices of compute of a GPU, and those of other models."""


@cache
def is_instance(gpu_type: str | None) -> bool:
    return isinstance(gpu_type, str) and PROFILE.search(gpu_type) is not None


@cache
def share_of_gpu(gpu_type: str) -> float:
    """The part of its GPU's compute that an instance has, 1 for a whole GPU. A default where there is no other figure."""
    if not is_instance(gpu_type):
        return 1.0
    found = PROFILE.search(gpu_type)
    assert found is not None
    slices = next((count for name, count in SLICES_OF.items() if name in gpu_type.upper()), SLICES)
    return max(1, min(slices, int(found[2] or found[3]))) / slices


def serves(asked: AbstractSet[str], gpu_type: str | None) -> bool:
    """Whether a job that names these types, or none, is placed on GPUs of this type; exception: `placement.feasibility`."""
    if not is_instance(gpu_type):
        return not asked or gpu_type in asked
    return gpu_type in asked and only_instances(asked)


def only_instances(asked: AbstractSet[str]) -> bool:
    """Whether a job that names these types asks for instances and for nothing else."""
    return bool(asked) and all(map(is_instance, asked))


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
