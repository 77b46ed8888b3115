"""The round mechanism of Gavel (OSDI '20, section 5): it chooses the jobs of the next round, and their GPU types.

    priority_mj = X_mj / f_mj        f_mj: the fraction of its time that job m has run on type j

Algorithm 1: take pairs of job and type from the highest priority down, while GPUs of the type are left; nobody twice. A job
that has had nothing of a type yet comes before all that have, those that should have more of it first.

*Deviation*: the paper counts a job's time since the allocation last changed, which in a busy cluster is hardly ever more than a
round. Here the last `WINDOW_ROUNDS` rounds count, or the rounds since the job came. So the rounds keep to the fractions over
hours, even if many jobs come and go, and time long ago is not held against a job.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

WINDOW_ROUNDS = 20

NOTHING_YET = 1e9
"""The factor on X_mj of a job that has had nothing of type j."""


@dataclass(frozen=True, slots=True)
class Entrant:
    """A job of the round. `fractions`: X by type; `had`: f by type; `now_on`: the type that it runs on."""

    job: int
    scale: int
    fractions: Mapping[str, float]
    had: Mapping[str, float]
    now_on: str | None = None

    def priority(self, gpu_type: str) -> float:
        had = self.had.get(gpu_type, 0.0)
        fraction = self.fractions.get(gpu_type, 0.0)
        return fraction / had if had > 0 else fraction * NOTHING_YET


def choose(entrants: Sequence[Entrant], gpus: Mapping[str, int]) -> dict[int, str]:
    """The GPU type of each job that runs. `entrants` in the queue's order, which decides between equals after leases do."""
    left = dict(gpus)
    chosen: dict[int, str] = {}
    for entrant, gpu_type in _by_priority(entrants):
        if entrant.job not in chosen and entrant.scale <= left.get(gpu_type, 0):
            left[gpu_type] -= entrant.scale
            chosen[entrant.job] = gpu_type
    return chosen


def _by_priority(entrants: Sequence[Entrant]) -> Iterable[tuple[Entrant, str]]:
    pairs = [
        (-entrant.priority(gpu_type), gpu_type != entrant.now_on, position, gpu_type)
        for position, entrant in enumerate(entrants)
        for gpu_type in entrant.fractions
    ]
    return ((entrants[position], gpu_type) for _, _, position, gpu_type in sorted(pairs))
