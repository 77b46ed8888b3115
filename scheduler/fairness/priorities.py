"""Queue priorities (algorithms.md section 3), one interface, larger is sooner; and the order they give.

A tenant's own `priority` of a job orders that tenant's jobs among themselves, before LR, and never moves another
tenant's: the places in the queue that a tenant's jobs earned stay the tenant's, only which of its jobs stands in
which changes. The weight in the ILP belongs to the place, or a job moved up by its own tenant would be out-bid by the
one it passed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from scheduler.fairness.lrf import latency_ratio
from scheduler.work import Ranked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from scheduler.fairness.lrf import Age
    from scheduler.model import Job


class Priority(Protocol):
    """A job's priority at `now_s`; larger is sooner."""

    def __call__(self, job: Job, now_s: float, age_s: float) -> float: ...


def first_in_first_out(job: Job, now_s: float, age_s: float) -> float:
    """FIFO: seconds since submission."""
    return now_s - job.submitted_s


def latency_ratio_first(job: Job, now_s: float, age_s: float) -> float:
    """LRF: the latency ratio, so that who waited longest for its length goes first (Hops eq. 8)."""
    return latency_ratio(job.wait_s, age_s)


PRIORITIES: Mapping[str, Priority] = {"fifo": first_in_first_out, "lrf": latency_ratio_first}


@dataclass(frozen=True, slots=True)
class _Entry:
    job: Job
    prior: float

    @property
    def key(self) -> tuple[float, float, int]:
        """Ties: earliest submission, then id."""
        return (-self.prior, self.job.submitted_s, self.job.id)


def order(jobs: Sequence[Job], priority: Priority, now_s: float, age: Callable[[Job], Age]) -> list[Ranked]:
    """The queue, first job first, ranks from 1."""
    ages = {job.id: age(job) for job in jobs}
    entries = sorted((_Entry(job, priority(job, now_s, ages[job.id].age_s)) for job in jobs), key=lambda each: each.key)
    queue: list[Ranked] = []
    for rank, (place, entry) in enumerate(zip(entries, _within_tenants(entries), strict=True), start=1):
        own = ages[entry.job.id]
        ratio = latency_ratio(entry.job.wait_s, own.age_s)
        queue.append(Ranked(entry.job, rank, place.prior, ratio, own.age_s, own.source))
    return queue


def _within_tenants(entries: Sequence[_Entry]) -> list[_Entry]:
    """The entries with each tenant's places given to its jobs by the tenant's own priority, then as they were."""
    by_tenant: dict[int, list[_Entry]] = {}
    for entry in entries:
        by_tenant.setdefault(entry.job.tenant, []).append(entry)
    turns = {
        tenant: iter(sorted(own, key=lambda each: (-each.job.priority, each.key))) for tenant, own in by_tenant.items()
    }
    return [next(turns[entry.job.tenant]) for entry in entries]
