"""The sensitivity adjustment of `hops` (Hops 3.6; algorithms.md section 7), in plannings that only fill what is idle.

If the mean placement sensitivity rho of the window is above the queue's, the window's jobs can hardly use scattered GPUs. Then
jobs beyond the window join it, in the queue's order: those with rho_i < rho_queue and R_1 <= idle GPUs, until the window's mean
is at most the queue's. They join this window only: the next planning fills its window again.
Where the specification is silent: a job of unknown sensitivity counts as the most sensitive one of the queue, and as above sigma.
`berth` does without it: its sweep offers what is idle to all jobs beyond the window (docs/decisions/0203).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from scheduler.estimator.estimator import Estimator
    from scheduler.model import Ranked


def joining(
    window: Sequence[Ranked],
    queue: Sequence[Ranked],
    barred: Collection[int],
    idle_gpus: int,
    estimator: Estimator,
    sigma: float,
) -> list[Ranked]:
    """The GPU jobs of the queue that join the window, in order. `barred`: job ids that a quota keeps out of it."""
    known = estimator.signatures != frozenset()  # else all jobs are equal
    if not window or len(window) == len(queue) or not idle_gpus or not known:
        return []
    rho = _sensitivities(queue, estimator, sigma)
    mean_of_queue = sum(rho.values()) / len(rho)
    inside = {ranked.job.id for ranked in window}
    total, count = sum(rho[number] for number in inside), len(inside)
    joined: list[Ranked] = []
    for ranked in queue:
        if total / count <= mean_of_queue:
            break
        job = ranked.job
        if job.id in inside or job.id in barred or rho[job.id] >= mean_of_queue or job.min_gpus > idle_gpus:
            continue
        joined.append(ranked)
        total, count = total + rho[job.id], count + 1
    return joined


def _sensitivities(queue: Sequence[Ranked], estimator: Estimator, sigma: float) -> dict[int, float]:
    found = {ranked.job.id: estimator.sensitivity(ranked.job) for ranked in queue}
    highest = max((rho for rho in found.values() if math.isfinite(rho)), default=sigma)
    unknown = max(highest, math.nextafter(sigma, math.inf))
    return {number: rho if math.isfinite(rho) else unknown for number, rho in found.items()}
