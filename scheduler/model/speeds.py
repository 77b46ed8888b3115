"""The knowledge of jobs' speeds: data loading, profiles, links and measured throughput (algorithms.md section 2)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scheduler.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

RELATIVE_SIGMA_FLOOR = 1e-3


@dataclass(frozen=True, slots=True)
class Part:
    """A component in sufficient statistics: its weight and weighted sums of data and wait times and their squares.

    `waited` is the weight of the observations that had a wait time: a single process has nobody to wait for.
    """

    weight: float
    data: float
    data2: float
    wait: float
    wait2: float
    waited: float

    @property
    def statistics(self) -> tuple[float, ...]:
        """`Part(*part.statistics)` makes the part again."""
        return self.weight, self.data, self.data2, self.wait, self.wait2, self.waited

    @property
    def data_s(self) -> float:
        return self.data / self.weight

    @property
    def spread_s(self) -> float:
        """Standard deviation of the data times, as observed."""
        return math.sqrt(max(0.0, self.data2 / self.weight - self.data_s**2))

    @property
    def data_sigma_s(self) -> float:
        """The same, never 0: a density needs a width."""
        return max(self.spread_s, RELATIVE_SIGMA_FLOOR * abs(self.data_s), 1e-12)

    @property
    def wait_s(self) -> float:
        """0 while no wait was observed."""
        return self.wait / self.waited if self.waited > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Loading:
    """A job's known data and wait times on a resource. `parts`: one, or hit and miss in this order."""

    count: int = 0
    parts: tuple[Part, ...] = ()
    recent: tuple[tuple[float, float | None], ...] = ()  # (data, wait) in seconds, oldest first

    @property
    def probabilities(self) -> tuple[float, ...]:
        total = sum(part.weight for part in self.parts)
        return tuple(part.weight / total for part in self.parts)

    @property
    def is_stable(self) -> bool:
        return len(self.parts) < 2


@dataclass(frozen=True, slots=True)
class Link:
    """Bandwidths of a GPU type in parameters per second; None = nothing is known of it. See `scheduler.estimator.links`."""

    within_node: float | None
    between_nodes: float | None
    within_assumed: bool = False  # nobody has measured it yet
    between_assumed: bool = False


@dataclass(frozen=True, slots=True)
class Profile:
    """A job's time modules on one GPU type, from profiling on one GPU, and its data times as they accumulate."""

    forward_s: float
    backward_s: float = 0.0
    update_s: float = 0.0
    batch_size: int = 1  # per GPU
    parameters: float = 0.0  # 0 = not known
    pattern: Pattern = Pattern.OVERLAPPED
    loading: Loading = Loading()
    rest_sigma_s: float | None = None  # spread of a step's computing on one GPU; None = not known
    wait_gpus: float = 0.0  # mean number of processes in the runs that `loading`'s waits come from; 0 = not known
    exposed: float | None = None  # the part of the communication that makes a step longer; None = not measured


@dataclass(frozen=True, slots=True)
class Cell:
    """Per-GPU throughput in samples per second: how many measurements, their mean and sum of squared deviations.

    `count` 0 with a mean above 0: not measured; a model of measurements elsewhere foretells it.
    """

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
    """All knowledge of jobs' speeds, by signature. The scheduler's driver stores and loads it."""

    cells: Mapping[CellKey, Cell] = field(default_factory=dict)
    profiles: Mapping[tuple[str, str], Profile] = field(default_factory=dict)  # (signature, GPU type)
    links: Mapping[str, Link] = field(default_factory=dict)  # GPU type
