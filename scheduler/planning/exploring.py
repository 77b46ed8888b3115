"""Which jobs may be spread to measure the cost of it (algorithms.md section 2): *a job that could use several nodes is
measured spread once when rho decides and is not known*.

A job whose sensitivity is not known counts as sensitive, so it would never be spread, and nobody would ever learn more. So for
each signature that has run, but never over several nodes, one job at a time counts as insensitive. It is offered sizes over
several nodes at their assumed speed, and takes one if that is worth it. Its first minutes there tell the sensitivity.

It is the job of the signature with the most work left, waiting or running. It is chosen only while knowing is worth the cost:
all jobs of the signature still have to run for at least as long as `WORTH_RESTARTS` restarts. A job that may not be stopped is
never chosen, because it would have to stay where it is if that turned out slow. While a job of the signature runs
over several nodes, no other is chosen.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from scheduler.estimator.measured import signature

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from scheduler.estimator.estimator import Estimator
    from scheduler.fairness.lrf import Age
    from scheduler.model import Job, Ranked, Running
    from scheduler.parameters import Parameters

LOOKED_AT = 1000
"""The most jobs of the queue that are looked at, the first ones: a job further back does not start now."""

WORTH_RESTARTS = 20


def choose(
    queue: Sequence[Ranked],
    running: Iterable[Running],
    estimator: Estimator,
    age: Callable[[Job], Age],
    parameters: Parameters,
) -> set[int]:
    """The jobs, one for each signature, that this planning may spread to measure them."""
    if estimator.signatures is not None and not estimator.signatures:
        return set()
    finding: set[str] = set()
    most: dict[str, tuple[float, int]] = {}
    left: dict[str, float] = {}
    for job, live in _candidates(queue, running):
        name = signature(job)
        if not estimator.is_known(job) or estimator.tells_spreading(job):
            continue
        if live is not None and len(live.pieces) > 1:
            finding.add(name)
        if live is not None and job.total_samples is not None and (speeds := estimator.samples_per_s(job)):
            # By its measured speed, because its age may be an old guess.
            left_s = job.total_samples * (1.0 - job.done_fraction) / (max(speeds.values()) * live.gpus)
        else:
            left_s = age(job).age_s * (1.0 - job.done_fraction)
        left[name] = left.get(name, 0.0) + left_s
        if job.movable and len(job.requirement) > 1:
            most[name] = max(most.get(name, (-1.0, 0)), (left_s, -job.id))
    worth_s = WORTH_RESTARTS * parameters.restart_cost_s
    return {-number for name, (_, number) in most.items() if name not in finding and left[name] >= worth_s}


def _candidates(queue: Sequence[Ranked], running: Iterable[Running]) -> Iterator[tuple[Job, Running | None]]:
    for live in running:
        if live.description is not None and live.gpus and live.profiled is None:
            yield live.description, live
    for ranked in islice(queue, LOOKED_AT):
        if not ranked.job.is_cpu:
            yield ranked.job, None
