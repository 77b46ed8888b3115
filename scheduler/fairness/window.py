"""Hops' service window (Hops 3.6): only the head of the queue has a chance to be placed.

From the head on, the minimum requirements R_1 are added up until they reach the GPUs on nodes that are up. The job that reaches
them is the last one inside. With quotas (ours) the jobs of a tenant count only as far as its quota lets them run, and no more of
them join once they ask for its whole quota. So the window is not full of jobs that cannot start, and it always ends. Without
quotas it is exactly the paper's window.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

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
