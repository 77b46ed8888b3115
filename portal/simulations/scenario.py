"""One simulation as a task: how its jobs and cluster come about, under which policy and knobs, and what is kept of it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from portal.simulations.parallel import Task

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from portal.simulations.parallel import Tell
    from scheduler.policy import Parameters
    from scheduler.simulator.records import Run
    from scheduler.simulator.truth import TracedJob, World


@dataclass(frozen=True, slots=True)
class Scenario:
    """Picklable. `prepare(seed)` makes the jobs and the world (a module's function, or a `functools.partial` of one);
    `digest` makes of the `Run`, in the same process, what is handed back (`scheduler.simulator.report.figures`, say).
    """

    prepare: Callable[[int], tuple[Sequence[TracedJob], World]]
    parameters: Parameters
    seed: int
    digest: Callable[[Run], Any]
    until_s: float | None = None

    def __call__(self, tell: Tell) -> Any:
        from scheduler.simulator.engine import simulate  # numpy and the solver are the process's own to load

        jobs, world = self.prepare(self.seed)
        run = simulate(
            jobs,
            world,
            self.parameters,
            seed=self.seed,
            clock=time.perf_counter,
            progress=lambda _, ended: tell(ended / max(1, len(jobs))),
            until_s=self.until_s,
        )
        return self.digest(run)

    def task(self) -> Task:
        return Task(f"{self.parameters.policy} seed {self.seed}", self)
