"""Hops' service window (Hops 3.6): only the head of the queue has a chance to be placed.

From the head on, the minimum requirements R_1 are added up until they reach the GPUs on nodes that are up. The job that reaches
them is the last one inside. With quotas (ours) the jobs of a tenant count only as far as its quota lets them run, and no more of
them join once they ask for its whole quota. So the window is not full of jobs that cannot start, and it always ends. Without
quotas it is exactly the paper's window.

*Sensitivity adjustment* (`hops`; algorithms.md section 7), in plannings that only fill what is idle:

If the mean placement sensitivity rho of the window is above the queue's, the window's jobs can hardly use scattered GPUs. Then
jobs beyond the window join it, in the queue's order: those with rho_i < rho_queue and R_1 <= idle GPUs, until the window's mean
is at most the queue's. They join this window only: the next planning fills its window again.
Where the specification is silent: a job of unknown sensitivity counts as the most sensitive one of the queue, and as above sigma.
`berth` does without it: its sweep offers what is idle to all jobs beyond the window (docs/decisions/0203).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from scheduler.estimator.estimator import Estimator
    from scheduler.model import Ranked
    from scheduler.placement.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Window:
    """The jobs that may be placed, in queue order, and the sum of minimum requirements that closes the window."""

    picked: tuple[Ranked, ...]
    gpus: int
    sated: frozenset[int]  # jobs passed over because their tenant's jobs ahead ask for its whole quota


def fill(queue: Sequence[Ranked], ledger: Ledger, size: float) -> Window:
    """The window over the GPU jobs of the queue; `size` multiplies the GPUs on nodes that are up."""
    capacity = round(ledger.gpus_up * size)
    picked: list[Ranked] = []
    asked: dict[int, int] = {}  # tenant -> sum of its picked R_1
    sated: set[int] = set()
    counted = 0
    for ranked in queue:
        if counted >= capacity:
            break
        tenant, gpus = ranked.job.tenant, ranked.job.min_gpus
        before = asked.get(tenant, 0)
        if is_sated(tenant, before, ledger):
            sated.add(ranked.job.id)
            continue
        asked[tenant] = before + gpus
        counted += usable_gpus(tenant, asked[tenant], ledger) - usable_gpus(tenant, before, ledger)
        picked.append(ranked)
    return Window(tuple(picked), capacity, frozenset(sated))


def is_sated(tenant: int, asked: int, ledger: Ledger) -> bool:
    """Whether the tenant's picked jobs ask for its whole quota already."""
    quotas = ledger.quotas.get(tenant)
    return quotas is not None and quotas.gpu_quota is not None and asked >= quotas.gpu_quota


def usable_gpus(tenant: int, asked: int, ledger: Ledger) -> int:
    """The GPUs that the tenant's quota still lets it use, up to those asked."""
    allowance = ledger.allowances.get(tenant)
    return asked if allowance is None or allowance.whole_gpus is None else min(asked, max(0, allowance.whole_gpus))


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
