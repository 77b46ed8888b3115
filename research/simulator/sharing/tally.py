"""What a simulated run of sharing came to: use of the GPUs, broken promises, energy, completion times (section 11's report)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.sharing.series import Floats, Ints
    from scheduler.simulator.sharing.world import SharingJob, World

SLO_MS = 150.0
"""A query that takes longer breaks its promise (Kube-Knots VI-B)."""
DEEP_W, IDLE_W, FULL_W = 9.0, 30.0, 250.0
"""Power of a GPU (P100): lowest state, with a job that computes nothing, busy; between them in proportion (figure 1)."""


@dataclass(slots=True)
class Tally:
    """Filled step by step. `utilisation`: of each GPU in each step, 0 to 1."""

    jobs: Sequence[SharingJob]
    utilisation: list[Floats] = field(default_factory=list)
    energy_j: float = 0.0
    queries: float = 0.0
    late: float = 0.0
    crashes: int = 0
    ended_s: dict[int, float] = field(default_factory=dict)
    shared_s: float = 0.0

    def step(self, world: World, waiting: Ints, span_s: float) -> None:
        """Count a step of so many seconds that has passed: `waiting`, the jobs that had arrived and were on no GPU."""
        use, people = world.used[:, 0], world.people
        self.utilisation.append(use.copy())
        watts = np.where(people == 0, DEEP_W, IDLE_W + (FULL_W - IDLE_W) * use)
        self.energy_j += float(watts.sum()) * span_s
        self.shared_s += float((people > 1).sum()) * span_s
        for job in world.ran:
            self._query(int(job), float(world.slowdown[job]), span_s)
        for job in waiting:
            self._query(int(job), np.inf, span_s)

    def _query(self, number: int, slowdown: float, span_s: float) -> None:
        job = self.jobs[number]
        if job.critical:
            self.queries += job.queries_per_s * span_s
            self.late += job.queries_per_s * span_s * (job.query_ms * slowdown > SLO_MS)

    def figures(self) -> dict[str, float]:
        """Return the report: shares from 0 to 1, times in seconds, energy in kWh; percentiles are the mean over the GPUs."""
        use = np.array(self.utilisation)
        batch = [
            self.ended_s[n] - job.arrival_s for n, job in enumerate(self.jobs) if n in self.ended_s and not job.critical
        ]
        spread = use.std(axis=0) / np.maximum(use.mean(axis=0), 1e-9)
        found = {f"utilisation_{pct}": float(np.percentile(use, pct, axis=0).mean()) for pct in (50, 90, 99, 100)}
        return found | {
            "utilisation": float(use.mean()),
            "cov": float(spread.mean()),
            "slo_violations": self.late / self.queries if self.queries else 0.0,
            "energy_kwh": self.energy_j / 3.6e6,
            "jct_mean_s": float(np.mean(batch)) if batch else 0.0,
            "jct_median_s": float(np.median(batch)) if batch else 0.0,
            "jct_99_s": float(np.percentile(batch, 99)) if batch else 0.0,
            "makespan_s": max(self.ended_s.values(), default=0.0),
            "crashes": float(self.crashes),
            "ended": float(len(self.ended_s)),
            "shared_gpu_hours": self.shared_s / 3600.0,
        }
