"""Competing jobs: those that took a waiting job's resources, and the one that waits for more GPUs of a placed job's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from scheduler.model import Chosen, Job, Queue, Ranked, who_of
from scheduler.placement.feasibility import Level, usable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from scheduler.explaining.candidates import Alike
    from scheduler.placement.free_capacity import Offer
    from scheduler.placement.outcome import DraftPlan


def passed_by(queue: Queue, at: np.ndarray, ranks_of: Callable[[Ranked], Sequence[int]]) -> np.ndarray:
    """For the jobs at these places of the queue: how many of the ranks that concern each are before its own.

    `ranks_of`: the ranks of a kind, ascending, by its first job; one list for kinds that have the same. The queue is a whole
    one, so that ranks are places.
    """
    numbers: dict[int, int] = {}
    every: list[Sequence[int]] = []
    list_of = np.zeros(len(queue.counts), np.int64)  # of each kind
    for kind in np.unique(queue.kinds[at]).tolist():
        ranks = ranks_of(queue.heads[kind])
        if id(ranks) not in numbers:
            numbers[id(ranks)] = len(every)
            every.append(ranks)
        list_of[kind] = numbers[id(ranks)]
    lists, own_ranks = list_of[queue.kinds[at]], at + 1
    found = np.zeros(len(at), np.int64)
    for number, ranks in enumerate(every):
        own = lists == number
        found[own] = np.searchsorted(ranks, own_ranks[own])
    return found


def told_apart(kinds: np.ndarray, ahead: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Number the different pairs in the order in which they first come: the numbers, and where each pair comes first."""
    pairs = kinds * (int(ahead.max(initial=0)) + 1) + ahead
    _, first, number = np.unique(pairs, return_index=True, return_inverse=True)
    turns = np.argsort(first)
    return np.argsort(turns)[number], first[turns]


@dataclass(frozen=True, slots=True)
class Rivals:
    """The ranks of the jobs that took a job's resources, ascending, and the ids of its own tenant's among them."""

    ranks: list[int]
    own: list[int]


class Takers:
    """The jobs that one plan placed, by the nodes that were idle before it. Each kind of waiting job is looked up once."""

    def __init__(self, queue: Sequence[Ranked], chosen: Mapping[int, Chosen], idle: Sequence[Offer]) -> None:
        self._idle = idle
        self.exclusive = any(offer.node.exclusive_tenant for offer in idle)
        """Whether some node takes one tenant at a time: then it matters whose job asks."""
        self._takers = [
            (each, frozenset(piece.node for piece in chosen[each.job.id].placement.pieces))
            for each in who_of(queue, chosen)
        ]
        self._rivals: dict[tuple[object, ...], Rivals] = {}
        self._open: dict[tuple[object, ...], list[Ranked]] = {}

    def rivals_of(self, job: Job) -> Rivals:
        """The jobs that were placed on nodes that the job could have used."""
        kind = (job.is_cpu, job.gpu_types, job.bound, job.tenant)
        if kind not in self._rivals:
            takers = self._on_open_nodes(job)
            own = [taker.job.id for taker in takers if taker.job.tenant == job.tenant]
            self._rivals[kind] = Rivals([taker.rank for taker in takers], own)
        return self._rivals[kind]

    def _on_open_nodes(self, job: Job) -> list[Ranked]:
        """The jobs that were placed on nodes that are open to such a job."""
        kind = (job.is_cpu, job.gpu_types, job.bound, job.tenant if self.exclusive else None)
        if kind not in self._open:
            nodes = {offer.node.id for offer in self._idle if usable(job, offer, Level.TRUST)}
            self._open[kind] = [taker for taker, where in self._takers if not where.isdisjoint(nodes)]
        return self._open[kind]


MOST_LOOKED_AT = 256
"""The most waiting jobs, the first ones, that are looked at for one that could use the GPUs."""


def next_larger(
    job: Job, chosen: Chosen, gpu_type: str, found: Sequence[Alike], queue: Sequence[Ranked], draft: DraftPlan
) -> dict[str, Any] | None:
    """{gpus, adds, job}, or None if no job waits for such GPUs.

    `gpus`: the next larger size on the job's GPU type among its candidates. `adds`: the part of its speed that it would add.
    `job`: the first job that waits for as many GPUs; its id if it is of the same tenant, else None.
    """
    made = chosen.configuration
    larger = [each for each in found if each.gpu_type == gpu_type and each.gpus > made.gpus]
    if not larger:
        return None
    best = min(larger, key=lambda each: (each.gpus, -each.throughput))
    waits = _first_waiting(best.gpus - made.gpus, gpu_type, queue, draft)
    if waits is None or best.throughput <= made.throughput:
        return None
    own = waits.job.id if waits.job.tenant == job.tenant else None
    return {"gpus": best.gpus, "adds": best.throughput / made.throughput - 1.0, "job": own}


def _first_waiting(gpus: int, gpu_type: str, queue: Sequence[Ranked], draft: DraftPlan) -> Ranked | None:
    without = (each for each in queue if not each.job.is_cpu and not draft.has(each.job.id))
    for _, each in zip(range(MOST_LOOKED_AT), without, strict=False):
        if each.job.min_gpus <= gpus and each.job.may_use(gpu_type):
            return each
    return None
