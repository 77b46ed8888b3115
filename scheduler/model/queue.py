"""A queue in order, and a policy's choice for one of its jobs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

L = TypeVar("L")
MOST = np.iinfo(np.int64).max

if TYPE_CHECKING:
    from scheduler.model.alike import Alike
    from scheduler.model.jobs import Job
    from scheduler.model.placements import Configuration, Placement


@dataclass(slots=True)
class Ranked:
    """A job with its place in the queue. `prior` weighs (LR up to 100); `latency_ratio` is its own, for the pages; `spread` is
    that of its age (`scheduler.estimator.lengths`).

    Nobody changes one. It is not frozen because each of 100 000 waiting jobs has one, and that makes it in a quarter of the time.
    """

    job: Job
    rank: int
    prior: float
    latency_ratio: float
    age_s: float
    age_source: str
    spread: float = 0.0


class Queue(list[Ranked]):
    """A long queue, drawn up at once, with its figures as arrays, a job a place.

    To look at 100 000 jobs one by one, scattered over memory as they are, takes longer than nearly every question about them.
    """

    def __init__(self, queue: Iterable[Ranked], columns: Mapping[str, np.ndarray]) -> None:
        """`columns`: `ids`, `kinds` (by `Job.alike`, numbered), `waits_s` and `gave_back` of the jobs."""
        super().__init__(queue)
        self.columns = columns
        self.ids, self.kinds = columns["ids"], columns["kinds"]

    def __reduce__(self) -> tuple[Any, ...]:
        return Queue, (list(self), self.columns)

    @cached_property
    def heads(self) -> dict[int, Ranked]:
        """The first job of each kind, in queue order."""
        first = np.full(int(self.kinds.max(initial=-1)) + 1, -1)
        first[self.kinds[::-1]] = np.arange(len(self) - 1, -1, -1)
        present = np.flatnonzero(first >= 0)
        order = present[np.argsort(first[present], kind="stable")]
        return {kind: self[place] for kind, place in zip(order.tolist(), first[order].tolist(), strict=True)}

    @cached_property
    def counts(self) -> np.ndarray:
        """How many jobs there are of each kind."""
        return np.bincount(self.kinds)

    def among(self, ids: Collection[int]) -> np.ndarray:
        return np.isin(self.ids, np.fromiter((each for each in ids if abs(each) <= MOST), np.int64))

    def only(self, which: np.ndarray) -> Queue:
        """These jobs, in the same order."""
        at = np.flatnonzero(which)
        return Queue(map(self.__getitem__, at.tolist()), {name: each[at] for name, each in self.columns.items()})


def who_of(queue: Sequence[Ranked], ids: Collection[int]) -> Sequence[Ranked]:
    """Those of the jobs that are among these, in queue order."""
    if isinstance(queue, Queue):
        return [queue[place] for place in np.flatnonzero(queue.among(ids)).tolist()]
    return [each for each in queue if each.job.id in ids]


def given_back(queue: Sequence[Ranked]) -> Sequence[Ranked]:
    """The jobs whose last attempt was stopped by a call-back, in queue order."""
    if isinstance(queue, Queue):
        return [queue[place] for place in np.flatnonzero(queue.columns["gave_back"]).tolist()]
    return [each for each in queue if each.job.gave_back]


def labelled(queue: Sequence[Ranked], label: Callable[[Ranked], L]) -> dict[L, list[Ranked]]:
    """The jobs by a label that is the same for a whole kind; each label's in queue order, labels by their first job."""
    if isinstance(queue, Queue):
        return _labelled(queue, label)
    labels: dict[Alike, list[Ranked]] = {}
    found: dict[L, list[Ranked]] = {}
    for ranked in queue:
        own = labels.get(ranked.job.alike)
        if own is None:
            own = labels[ranked.job.alike] = found.setdefault(label(ranked), [])
        own.append(ranked)
    return found


def _labelled(queue: Queue, label: Callable[[Ranked], L]) -> dict[L, list[Ranked]]:
    numbers: dict[L, int] = {}
    number_of = np.zeros(int(queue.kinds.max(initial=-1)) + 1, np.int64)
    for kind, head in queue.heads.items():
        number_of[kind] = numbers.setdefault(label(head), len(numbers))
    own = number_of[queue.kinds]
    order, sizes = np.argsort(own, kind="stable"), np.bincount(own, minlength=len(numbers))
    parts = np.split(order, np.cumsum(sizes)[:-1]) if numbers else []
    return {each: [queue[place] for place in part.tolist()] for each, part in zip(numbers, parts, strict=True)}


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
