"""What the large cluster came to: completion times of trainings and of inference, late tasks, use of the GPUs, energy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from research.simulator.sharing.tally import DEEP_W, FULL_W, IDLE_W, SLO_MS, Tally

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.sharing.series import Floats, Ints
    from scheduler.simulator.sharing.world import SharingJob, World

BINS = 101
"""Use is counted in hundredths."""


class TasksTally(Tally):
    """Filled step by step; steps may differ in length. `held_s`: seconds of GPUs with somebody, by their use in hundredths."""

    def __init__(self, jobs: Sequence[SharingJob], n_gpus: int) -> None:
        super().__init__(jobs)
        self._n_gpus = n_gpus
        self.held_s: Floats = np.zeros(BINS)
        self.now_s = self.work_s = 0.0
        self.delay_ms: Floats = np.zeros(len(jobs))
        self.slowest: Floats = np.ones(len(jobs))
        self.moves = 0

    def step(self, world: World, waiting: Ints, span_s: float) -> None:
        use, people = world.used[:, 0], world.people
        self.held_s += np.bincount((use[people > 0] * (BINS - 1)).astype(np.int64), minlength=BINS) * span_s
        self.work_s += float(use.sum()) * span_s
        self.now_s += span_s
        self.shared_s += float((people > 1).sum()) * span_s
        before = world.done_s[world.ran] - span_s / world.slowdown[world.ran]
        self.delay_ms[world.ran] += np.clip(-before, 0.0, span_s) * 1000.0
        self.delay_ms[waiting] += 1000.0 * span_s
        self.slowest[world.ran] = np.maximum(self.slowest[world.ran], world.slowdown[world.ran])

    def figures(self) -> dict[str, float]:
        """Return the report. Times in seconds, energy in kWh; use is of GPUs with somebody on them.

        `energy_least_kwh`: the same work on GPUs that are busy throughout, the others in their lowest state.
        `energy_awake_kwh`: as it was, with GPUs that nobody uses awake.
        """
        held, whole = float(self.held_s.sum()), self._n_gpus * self.now_s
        above_j = (FULL_W - IDLE_W) * self.work_s
        energy = {
            "energy_kwh": IDLE_W * held + above_j + DEEP_W * (whole - held),
            "energy_awake_kwh": IDLE_W * whole + above_j,
            "energy_least_kwh": FULL_W * self.work_s + DEEP_W * (whole - self.work_s),
        }
        late = [
            self.delay_ms[n] + job.query_ms * self.slowest[n] > SLO_MS
            for n, job in enumerate(self.jobs)
            if job.critical
        ]
        reached = np.cumsum(self.held_s) / max(held, 1e-9)
        found = {f"utilisation_{pct}": float(np.searchsorted(reached, pct / 100)) / (BINS - 1) for pct in (50, 90, 99)}
        return (
            found
            | {name: joules / 3.6e6 for name, joules in energy.items()}
            | {f"{name}_s": value for name, value in self._times().items()}
            | {
                "gpu_hours_held": held / 3600.0,
                "slo_violations": float(np.mean(late)) if late else 0.0,
                "crashes": float(self.crashes),
                "moves": float(self.moves),
                "ended": float(len(self.ended_s)),
            }
        )

    def _times(self) -> dict[str, float]:
        """Mean, median and 99 % of the completion times: of all, of trainings, of inference."""
        found = {"makespan": max(self.ended_s.values(), default=0.0)}
        for of, critical in (("jct", (False, True)), ("training_jct", (False,)), ("inference_jct", (True,))):
            took = [self.ended_s[n] - self.jobs[n].arrival_s for n in self.ended_s if self.jobs[n].critical in critical]
            if took:
                found |= {f"{of}_mean": float(np.mean(took)), f"{of}_median": float(np.median(took))}
                found[f"{of}_99"] = float(np.percentile(took, 99))
        return found
