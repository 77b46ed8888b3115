"""One simulation as a task: how its jobs and cluster come about, under which policy and knobs, and what is kept of it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from portal.pages.laboratory.run.parallel import Task
from portal.pages.laboratory.run.simulating import simulated

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from portal.pages.laboratory.run.parallel import Tell
    from scheduler.parameters import Parameters
    from scheduler.simulator.records import Run
    from scheduler.simulator.world.truth import TracedJob, World


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
    clock: Callable[[], float] = time.perf_counter  # behind `solve_*`; `time.process_time` where others use the machine

    def __call__(self, tell: Tell) -> Any:
        jobs, world = self.prepare(self.seed)
        run = simulated(
            jobs,
            world,
            self.parameters,
            seed=self.seed,
            tell=tell,
            until_s=self.until_s,
            clock=self.clock,
        )
        return self.digest(run)

    def task(self) -> Task:
        return Task(f"{self.parameters.policy} seed {self.seed}", self)
