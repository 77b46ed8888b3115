"""Checks of traced jobs when they are given to the engine: an error names the job, the fault and the remedy."""

from __future__ import annotations

import math
from collections.abc import Container
from typing import TYPE_CHECKING

from scheduler.estimator.tables import signature
from scheduler.intake.take_in import take_in
from scheduler.model import ClusterState
from scheduler.model.speeds import Knowledge
from scheduler.simulator.errors import SimulationError

if TYPE_CHECKING:
    from scheduler.simulator.world.truth import TracedJob


def check(traced: TracedJob, known: Container[int], now_s: float) -> None:
    """Raise SimulationError if the job cannot be simulated. The scheduler itself checks what the tenant declares."""
    number = traced.job.id
    if number in known:
        raise SimulationError(f"job {number} is listed twice; give each job an id of its own")
    if not (math.isfinite(traced.job.submitted_s) and traced.job.submitted_s >= now_s):
        detail = f"arrives at {traced.job.submitted_s} s; the clock stands at {now_s:g} s"
        raise SimulationError(f"job {number} {detail}: arrivals must be finite and not in the past")
    if not (math.isfinite(traced.work) and traced.work > 0):
        raise SimulationError(f"job {number} has {traced.work} units of work; it must be a finite number above 0")
    if not (math.isfinite(traced.bandwidth_gbs) and traced.bandwidth_gbs >= 0):
        raise SimulationError(f"job {number} draws {traced.bandwidth_gbs} GB/s; it must be a finite number, 0 or more")
    if not all(0 < fraction < 1 for fraction in traced.fails):
        raise SimulationError(f"job {number} fails at {traced.fails} of its work; the fractions must be within 0 and 1")
    if not all(math.isfinite(speed) and speed > 0 for speed in traced.known.values()):
        raise SimulationError(f"job {number} brings a known speed that is no finite number above 0")
    if traced.profiles:
        profiles = {(signature(traced.job), gpu_type): profile for gpu_type, profile in traced.profiles.items()}
        for wrong in take_in(ClusterState((), (), knowledge=Knowledge({}, profiles))).suspects.values():
            raise SimulationError(f"job {number}: {wrong}")
