"""The use of a GPU by a simulated job over its undisturbed life."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scheduler.sharing.model import Profile
from scheduler.sharing.series import Floats

RESOURCES = ("gpu", "memory", "core", "pcie")
"""Each in parts of a GPU's: time in which a kernel runs, memory, SMs occupied, PCIe bandwidth (DqnGPU, table 1)."""


@dataclass(frozen=True, slots=True)
class Usage:
    """A signature's use by phase. `parts`: shape (phases, 4), the `RESOURCES` in 0 to 1; an undisturbed phase lasts `phase_s`.

    Raises ValueError for no phases, values outside 0 to 1, or phases of no length.
    """

    signature: str
    parts: Floats
    phase_s: float = 1.0

    def __post_init__(self) -> None:
        if (
            self.parts.ndim != 2
            or self.parts.shape[0] < 1
            or self.parts.shape[1] != len(RESOURCES)
            or self.phase_s <= 0
        ):
            raise ValueError(f"{self.signature}: a use of shape {self.parts.shape} with phases of {self.phase_s} s")
        if not ((self.parts >= 0).all() and (self.parts <= 1).all()):
            raise ValueError(f"{self.signature} uses less than nothing or more than a whole GPU")

    @property
    def alone_s(self) -> float:
        return len(self.parts) * self.phase_s

    def profile(self, memory_mib: int) -> Profile:
        """Return the record of an undisturbed run on a GPU with this memory; PCIe in parts of the link."""
        parts = np.repeat(self.parts, -(-5 // len(self.parts)), axis=0)
        return Profile({"memory_mib": parts[:, 1] * memory_mib, "gpu": parts[:, 0], "pcie_mb_s": parts[:, 3]})


@dataclass(frozen=True, slots=True)
class SharingJob:
    """A job of a simulated workload that opted in. Memory in MiB; only latency-critical jobs have queries."""

    key: int
    usage: Usage
    arrival_s: float
    memory_mib: int
    critical: bool = False
    queries_per_s: float = 0.0
    query_ms: float = 0.0
