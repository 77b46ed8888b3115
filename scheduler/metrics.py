"""What a planning leaves behind, in figures (Hops eq. 7, CODA VI; algorithms.md sections 3 and 10).

- active rate = allocated / total; utilisation = the mean over the active ones;
- RAQLR(h) = mean LR of the m jobs that ended in the last h hours, None for m = 0;
- fragments = idle GPUs while an eligible job waits, each counted once, in the first kind that fits. Kind 1: some
waiting
  job's smallest size fits its node but for cores. Kind 2: some waiting R_1 is at most the idle GPUs of its type, but
  they are not where (or, outside the window, when) it could use them. The rest has no demand and is no fragment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduler.fairness.lrf import latency_ratio
from scheduler.placement.feasibility import Level, idle_offers, type_allowed, usable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scheduler.model import Ended, Job, Node
    from scheduler.placement.feasibility import Offer
    from scheduler.placement.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Fragments:
    """Idle GPUs that an eligible waiting job could have used, by kind."""

    short_of_cores: int
    scattered: int

    @property
    def total(self) -> int:
        return self.short_of_cores + self.scattered


def rate(part: int, whole: int) -> float | None:
    """The part of the whole; None when there is nothing."""
    return part / whole if whole else None


def mean_over_active(utilisation: Iterable[float | None]) -> float | None:
    """Mean utilisation of the allocated devices that reported one; None when none did."""
    known = [value for value in utilisation if value is not None]
    return sum(known) / len(known) if known else None


def raqlr(ended: Iterable[Ended], now_s: float, hours: float) -> tuple[float | None, int]:
    """RAQLR(h) and its m (Hops eq. 7)."""
    recent = [each for each in ended if now_s - hours * 3600 < each.ended_s <= now_s]
    if not recent:
        return None, 0
    return sum(latency_ratio(each.wait_s, each.age_s) for each in recent) / len(recent), len(recent)


def live_latency_ratio(ratios: Sequence[float]) -> tuple[float | None, float | None]:
    """Mean and maximum LR of the eligible jobs that still wait."""
    return (sum(ratios) / len(ratios), max(ratios)) if ratios else (None, None)


def allocated(nodes: Iterable[Node], ledger: Ledger) -> tuple[int, int]:
    """GPUs and cores held after the plan. On a node that gets no new jobs what is not idle in the snapshot is held."""
    gpus = cores = 0
    for node in nodes:
        room = ledger.rooms.get(node.id)
        gpus += node.gpus_total - len(room.gpus if room else node.idle_gpus)
        cores += node.cores_total - len(room.cores if room else node.idle_cores)
    return gpus, cores


def fragments(waiting: Iterable[Job], ledger: Ledger) -> Fragments:
    """Both kinds, for the eligible jobs that the plan leaves waiting and the ledger it leaves."""
    shapes = {
        (job.min_gpus, job.gpu_types, job.memory_mib, job.checkpoint_domain, job.tenant): job
        for job in waiting
        if not job.is_cpu
    }
    jobs = list(shapes.values())
    offers = [offer for offer in idle_offers(ledger) if offer.gpus]
    idle: dict[str | None, int] = {}
    for offer in offers:
        idle[offer.node.gpu_type] = idle.get(offer.node.gpu_type, 0) + offer.gpus
    short_of_cores = scattered = 0
    for offer in offers:
        if any(_fits_but_for_cores(job, offer) for job in jobs):
            short_of_cores += offer.gpus
        elif any(job.min_gpus <= idle[offer.node.gpu_type] and type_allowed(job, offer.node) for job in jobs):
            scattered += offer.gpus
    return Fragments(short_of_cores, scattered)


def _fits_but_for_cores(job: Job, offer: Offer) -> bool:
    return (
        job.min_gpus <= offer.gpus
        and offer.cores < job.min_gpus
        and job.memory_mib <= offer.memory_mib
        and usable(job, offer, Level.TRUST)
    )
