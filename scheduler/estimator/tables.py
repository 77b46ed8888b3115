"""Measured throughput in two tables per job signature (Hops 3.3; algorithms.md section 2).

Per entity (node) and per GPU type: an *aggregated* table by GPU count, for runs on one node, and a *distributed* one by
GPUs in all and nodes. A cell keeps count, mean and variance (Welford). Every measurement goes into the entity's and the
type's. *Deviation*: Hops' distributed table is by nodes alone, so that 2 and 16 GPUs on two nodes would share a cell
(docs/decisions/0014).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scheduler.estimator.iteration import Link, Profile
    from scheduler.model import Job


@dataclass(frozen=True, slots=True)
class Cell:
    """Per-GPU throughput in samples per second: how many measurements, their mean and sum of squared deviations."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def add(self, value: float) -> Cell:
        """The cell with one more measurement (Welford). ValueError unless it is a finite number above 0."""
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"throughput {value} is not a finite number above 0")
        count = self.count + 1
        mean = self.mean + (value - self.mean) / count
        return Cell(count, mean, self.squares + (value - self.mean) * (value - mean))

    @property
    def variance(self) -> float | None:
        """Sample variance; None below two measurements."""
        return self.squares / (self.count - 1) if self.count > 1 else None


@dataclass(frozen=True, slots=True)
class CellKey:
    """A job signature, a node id or a GPU type's name, the GPUs in all, and the nodes of a distributed run (None: one).

    `gpus` None: a distributed run measured when only nodes were kept.
    """

    signature: str
    resource: int | str
    gpus: int | None = None
    nodes: int | None = None


@dataclass(frozen=True, slots=True)
class Knowledge:
    """All that is known of jobs' speeds, by signature. Whoever drives the scheduler stores and loads it."""

    cells: Mapping[CellKey, Cell] = field(default_factory=dict)
    profiles: Mapping[tuple[str, str], Profile] = field(default_factory=dict)  # (signature, GPU type)
    links: Mapping[str, Link] = field(default_factory=dict)  # GPU type


def signature_of(tenant: int, model_label: str | None, job: int) -> str:
    """What makes two jobs comparable: tenant and model label when given, else the job and its restarts alone."""
    return f"tenant:{tenant}:{model_label}" if model_label else f"job:{job}"


def signature(job: Job) -> str:
    return signature_of(job.tenant, job.model_label, job.id)


def cell_key(signature: str, resource: int | str, gpus: int, nodes: int) -> CellKey:
    """The cell of a run on `gpus` GPUs in all over `nodes` nodes."""
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
