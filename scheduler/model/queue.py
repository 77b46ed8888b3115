"""A queue in order, and what a policy chose for one of its jobs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scheduler.model.jobs import Job
    from scheduler.model.placements import Configuration, Placement


@dataclass(slots=True)
class Ranked:
    """A job with its place in the queue. `prior` weighs (LR up to 100); `latency_ratio` is its own, for the pages.

    Nobody changes one. It is not frozen because each of 100 000 waiting jobs has one, and that makes it in a quarter of the time.
    """

    job: Job
    rank: int
    prior: float
    latency_ratio: float
    age_s: float
    age_source: str


class Lines(Sequence[Ranked], ABC):
    """A queue that its driver keeps current between plannings, with each tenant's own line at hand."""

    @abstractmethod
    def by_tenant(self) -> dict[int, Iterator[Ranked]]: ...


def by_tenant(queue: Sequence[Ranked]) -> dict[int, Iterator[Ranked]]:
    """Each tenant's jobs, in queue order; tenants in the order of their first job."""
    if isinstance(queue, Lines):
        return queue.by_tenant()
    lines: dict[int, list[Ranked]] = {}
    for ranked in queue:
        lines.setdefault(ranked.job.tenant, []).append(ranked)
    return {tenant: iter(own) for tenant, own in lines.items()}


@dataclass(frozen=True, slots=True)
class Chosen:
    """A placed job: the configuration taken, its gain G and weight w, and out of how many candidates."""

    configuration: Configuration
    placement: Placement
    gain: float
    weight: float
    candidates: int
