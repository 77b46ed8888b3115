"""Run the engine, and tell how far it has come."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from portal.pages.laboratory.run.parallel import Tell
    from scheduler.parameters import Parameters
    from scheduler.simulator.records import Run
    from scheduler.simulator.world.truth import TracedJob, World


def simulated(
    jobs: Sequence[TracedJob],
    world: World,
    parameters: Parameters,
    *,
    seed: int,
    tell: Tell,
    until_s: float | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Run:
    """Return the engine's run; tell on the way what fraction is done: of the jobs, or of the time until the cut."""
    from scheduler.simulator.engine import simulate

    def progress(now_s: float, ended: int) -> None:
        done = ended / max(1, len(jobs))
        tell(min(1.0, done if until_s is None else max(done, now_s / until_s)))

    return simulate(jobs, world, parameters, seed=seed, clock=clock, progress=progress, until_s=until_s)
