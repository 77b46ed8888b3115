"""A job in the simulated cluster: its life so far, its present attempt; and the queue of a policy that serves the first first.

Section 3: FIFO orders by seconds since submission, so two jobs never change places; ties go to the lower id. So the queue stays
in order between plannings and is not sorted again: it is the same sequence that `order` would give. A job is described when it
is looked at.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scheduler.copies import replace
from scheduler.fairness.lrf import Age, latency_ratio
from scheduler.model import Job, Lines, Piece, Placement, Promise, Ranked, Running, Span, StopOrder
from scheduler.simulator.world.truth import SimulationError, Spot, TracedJob

if TYPE_CHECKING:
    from scheduler.estimator.tuner import Tuning
    from scheduler.simulator.cluster import Cluster

    Key = tuple[float, int]

SPANS_S = 8 * 3600.0
"""The time for which each ended attempt is remembered."""


@dataclass(slots=True, eq=False)
class Attempt:
    """One run of a job. Work goes on from `ready_s`, at `rate`; it is counted up to `counted_s`."""

    placement: Placement
    started_s: float
    ready_s: float
    noise: float
    spots: tuple[Spot, ...] = ()
    rate: float = 0.0
    counted_s: float = 0.0
    end_s: float = math.inf
    order: StopOrder | None = None  # the stop that ended it, or will end it
    measured_s: float = 0.0  # its speed was measured up to here
    tuning: Tuning | None = None  # the search for its cores, once it has begun
    share: float = 1.0  # the part of its speed and of its memory traffic that a throttle leaves
    gpus: int = field(init=False)
    shown: Running | None = None  # as the last snapshot had it, while nothing of it has changed

    def __post_init__(self) -> None:
        self.gpus = self.placement.gpus  # tuning changes only its cores

    @property
    def pieces(self) -> tuple[Piece, ...]:
        return self.placement.pieces

    def exchange(self, cluster: Cluster, cores: int, tenant: int) -> None:
        """Set the cores on its one node: take idle ones or give some back."""
        piece = self.pieces[0]
        if len(piece.cores) != cores:
            piece = cluster.exchange(piece, cores, tenant)
            self.placement = replace(self.placement, pieces=(piece,))

    @property
    def stopping(self) -> bool:
        return self.order is not None


@dataclass(slots=True, eq=False)
class Load:
    """A job of the trace and its life so far. `since_s`: waiting and eligible since; None = it is not."""

    traced: TracedJob
    done: float = 0.0
    since_s: float | None = None
    waited_s: float = 0.0
    attempt: Attempt | None = None
    age_s: float | None = None
    age_guessed: bool = False
    first_started_s: float | None = None
    gpus_first: int = 0
    restarts: int = 0  # after a planner's stop
    starts: int = 0
    failures: int = 0
    ran_s: float = 0.0
    gpu_s: float = 0.0
    checkpoint_node: int | None = None
    promise: Promise | None = None
    gave_back: bool = False
    profiled_since_s: float | None = None  # start of its first profile
    described: Job | None = None  # as it waits, while nothing but its waiting has changed
    ended_s: float | None = None
    state: str = "UNFINISHED"
    unit_rate: float = 1.0  # work a second that counts as one GPU's worth
    joined: float = 0.0  # the integral of live jobs over time, when it came: see `ideal`
    ideal_s: float | None = None
    cores: int | None = None  # a GPU, as the service asks for it; None = as its tenant did
    tuned_on: tuple[int, int] | None = (
        None  # node and GPUs of the attempt for which they were found best; None = not yet
    )
    searched_s: float = -math.inf  # when the last search for them began
    sizes: list[int] = field(default_factory=list)
    causes: list[str] = field(default_factory=list)  # of the stops that were ordered
    spans: tuple[Span, ...] = ()  # the attempts on GPUs that ended in the last `SPANS_S`

    @property
    def id(self) -> int:
        return self.traced.job.id

    @property
    def least_cores(self) -> int:
        """Its hard cores a GPU, as its tenant asked; one where the service chooses."""
        return self.traced.job.least_cores if self.cores is None else 1

    def wait_s(self, now_s: float) -> float:
        return self.waited_s if self.since_s is None else self.waited_s + (now_s - self.since_s)

    def waits_from(self, now_s: float, *, eligible: bool) -> None:
        """From now on its waiting counts, or does not count."""
        if eligible and self.since_s is None:
            self.since_s = now_s
        elif not eligible and self.since_s is not None:
            self.waited_s += now_s - self.since_s
            self.since_s = None


def count_work(load: Load, now_s: float) -> None:
    """Add the attempt's work since it was last counted."""
    attempt = load.attempt
    if attempt is None:
        return
    worked_s = now_s - max(attempt.counted_s, attempt.ready_s)
    if worked_s > 0:
        load.done = min(load.traced.work, load.done + worked_s * attempt.rate)
    attempt.counted_s = now_s


def rate_of(load: Load, spots: Sequence[Spot]) -> float:
    """Units of work a second there, by the job's law. SimulationError unless it is a finite number above 0.

    A law may raise ValueError where it knows of none, on a GPU type that was not measured, say.
    """
    try:
        rate = load.traced.law.rate(spots)
    except ValueError as error:
        raise SimulationError(f"job {load.id}: {error}") from error
    if not (rate > 0 and math.isfinite(rate)):
        where = ", ".join(f"{spot.gpus} GPUs on node {spot.node} ({spot.gpu_type})" for spot in spots)
        raise SimulationError(f"job {load.id}: its law gives the rate {rate} on {where}; it must be above 0")
    return rate


class ArrivalQueue(Lines):
    """The waiting jobs, in the order in which they came."""

    def __init__(self) -> None:
        self._keys: list[Key] = []
        self._loads: dict[int, Load] = {}
        self._lines: dict[int, list[Key]] = {}
        self._now_s = 0.0
        self._describe: Callable[[Load], Job]
        self._age: Callable[[Job], Age]

    def at(self, now_s: float, describe: Callable[[Load], Job], age: Callable[[Job], Age]) -> ArrivalQueue:
        """Set how the jobs of the queue are described now, and their ages."""
        self._now_s, self._describe, self._age = now_s, describe, age
        return self

    def join(self, load: Load) -> None:
        key = _key(load)
        insort(self._keys, key)
        insort(self._lines.setdefault(load.traced.job.tenant, []), key)
        self._loads[load.id] = load

    def leave(self, load: Load) -> None:
        if self._loads.pop(load.id, None) is None:
            return
        key, tenant = _key(load), load.traced.job.tenant
        del self._keys[bisect_left(self._keys, key)]
        line = self._lines[tenant]
        del line[bisect_left(line, key)]
        if not line:
            del self._lines[tenant]

    def by_tenant(self) -> dict[int, Iterator[Ranked]]:
        """Each tenant's jobs, first come first; tenants by their first job."""
        tenants = sorted(self._lines, key=lambda tenant: self._lines[tenant][0])
        return {tenant: map(self._ranked, self._lines[tenant]) for tenant in tenants}

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[Ranked]:
        return map(self._ranked, self._keys)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self._ranked(key) for key in self._keys[place]]
        return self._ranked(self._keys[place])

    def _ranked(self, key: Key) -> Ranked:
        job = self._describe(self._loads[key[1]])
        own = self._age(job)
        rank = bisect_left(self._keys, key) + 1
        ratio = latency_ratio(job.wait_s, own.age_s)
        return Ranked(job, rank, self._now_s - job.submitted_s, ratio, own.age_s, own.source, own.spread)


def _key(load: Load) -> Key:
    return (load.traced.job.submitted_s, load.id)
