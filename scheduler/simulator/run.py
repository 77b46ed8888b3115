"""One simulation from its first event to its last."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from scheduler.model import Clock
from scheduler.simulator.engine import Engine

if TYPE_CHECKING:
    from scheduler.parameters import Parameters
    from scheduler.simulator.records import Run
    from scheduler.simulator.world.truth import TracedJob, World


def simulate(
    jobs: Iterable[TracedJob],
    world: World,
    parameters: Parameters,
    *,
    seed: int,
    clock: Clock,
    progress: Callable[[float, int], None] | None = None,
    until_s: float | None = None,
) -> Run:
    """Simulate the jobs under `parameters.policy` (ours or a rival's).

    `clock`: monotonic; used only for the records' `solve_s`. `progress`: called with (virtual seconds, ended jobs) now and then;
    it may raise to end the simulation. `until_s`: the simulation is cut off then. The same arguments give an equal Run, except
    for `solve_s`. Raises SimulationError for jobs or a world that cannot be simulated.
    """
    engine = Engine(jobs, world, parameters, seed=seed, clock=clock, progress=progress)
    engine.run(math.inf if until_s is None else until_s)
    return engine.result()
