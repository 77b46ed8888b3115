"""One window per array, filled progressively (algorithms.md section 4): where DRF and LRF become one queue.

The tenant with the smallest weighted share (running jobs and picks; ties: the first in the queue) has its turn. Its first
eligible job joins the window of its array and adds its minimum requirement to the share. This is repeated until the picked
minimum requirements reach the array's GPUs on nodes that are up. Shares are of all GPUs, so the arrays are filled side by side.
The *front* are the picks until what this planning can hand out is reached, with the job that reaches it. The other picks are the
*backfill*. So DRF decides which tenant is next, and the queue's priority which of its jobs.
With one tenant and one array this is Hops' window, and quotas count as there. Jobs that were stopped to give back what they had
borrowed are picked before all others: they stand at the head of their array.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from scheduler.fairness.window import is_sated, usable_gpus
from scheduler.model import Ranked, ShareView, Side, Standing, WindowView, given_back

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from scheduler.fairness.arrays import Array, Shares
    from scheduler.placement.ledger import Ledger


@dataclass(slots=True)
class ArrayWindow:
    """An array's window: its picks in order of picking, and how many of them are the front."""

    capacity: int  # GPUs at which the window closes
    idle: int  # GPUs that this planning can hand out in the array
    picked: list[Ranked] = field(default_factory=list)
    front_jobs: int = 0
    counted: int = 0  # the picks' minimum requirements, as far as quotas let them be used
    tenants: set[int] = field(default_factory=set)  # all that wait in the array

    @property
    def is_closed(self) -> bool:
        return self.counted >= self.capacity

    @property
    def front(self) -> Sequence[Ranked]:
        """If a single tenant waits, fairness does not matter, and the whole window is the front."""
        return self.picked[: self.front_jobs] if len(self.tenants) > 1 else self.picked

    @property
    def backfill(self) -> Sequence[Ranked]:
        return self.picked[len(self.front) :]

    def add(self, ranked: Ranked, gpus: int) -> None:
        if self.counted < self.idle or not self.picked:
            self.front_jobs += 1
        self.picked.append(ranked)
        self.counted += gpus


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows by array, all picks in order of picking, and the jobs that only their tenant's quota kept out."""

    by_array: Mapping[Array, ArrayWindow]
    picked: tuple[Ranked, ...]
    sated: frozenset[int]
    arrays: frozenset[Array]  # in which somebody of the queue waits
    share_when_picked: Mapping[int, float]  # job -> its tenant's, before the job was added


class _Waiting:
    """A tenant's jobs by array, each array's in queue order."""

    def __init__(self) -> None:
        self.by_array: dict[Array, deque[Ranked]] = {}
        self.asked = 0  # GPUs, the sum of its picked R_1

    def head(self, windows: Mapping[Array, ArrayWindow]) -> tuple[Ranked, Array] | None:
        """The tenant's first job whose array is still open."""
        heads = [(jobs[0], array) for array, jobs in self.by_array.items() if jobs and not windows[array].is_closed]
        return min(heads, key=lambda each: each[0].rank, default=None)


def fill(
    queue: Sequence[Ranked],
    lines: Mapping[tuple[int, Array], Iterable[Ranked]],
    windows: Mapping[Array, ArrayWindow],
    shares: Shares,
    ledger: Ledger,
    *,
    array: Callable[[Ranked], Array],
    units: Callable[[Ranked], float],
) -> Windows:
    """Fill the windows from the queue's GPU jobs. `lines`: the same by tenant and home, each in queue order; `array`: a job's
    home, the same for its whole kind; `units`: its addition to a share.
    """
    waiting = _by_tenant(lines, windows)
    arrays = frozenset(home for own in waiting.values() for home in own.by_array)
    filling = _Filling(waiting, windows, shares, ledger, units)
    filling.take_those_who_gave_back(queue, array)
    sated = filling.take_turns()
    return Windows(windows, tuple(filling.picked), frozenset(sated), arrays, filling.when_picked)


@dataclass(slots=True)
class _Filling:
    """Fills the windows. `when_picked`: job id -> its tenant's share before the job was added."""

    waiting: Mapping[int, _Waiting]
    windows: Mapping[Array, ArrayWindow]
    shares: Shares
    ledger: Ledger
    units: Callable[[Ranked], float]
    picked: list[Ranked] = field(default_factory=list)
    when_picked: dict[int, float] = field(default_factory=dict)

    def take_those_who_gave_back(self, queue: Sequence[Ranked], array: Callable[[Ranked], Array]) -> None:
        for ranked in given_back(queue):
            home = array(ranked)
            if not self.windows[home].is_closed and not self._is_sated(ranked.job.tenant):
                self._pick(ranked, home)

    def take_turns(self) -> set[int]:
        """Pick for one tenant after another, the smallest share first. Returns the jobs that only a quota kept out."""
        heap = [entry for tenant in self.waiting if (entry := self._entry(tenant))]
        heapify(heap)
        sated: set[int] = set()
        while heap:
            _, rank, tenant = heappop(heap)
            own = self.waiting[tenant]
            head = own.head(self.windows)
            if head is None:
                continue
            ranked, home = head
            if ranked.rank == rank:  # else its array closed since the entry was made, and another job is its head now
                if self._is_sated(tenant):
                    sated.update(each.job.id for jobs in own.by_array.values() for each in jobs)
                    continue
                self._pick(ranked, home)
            if entry := self._entry(tenant):
                heappush(heap, entry)
        return sated

    def _is_sated(self, tenant: int) -> bool:
        return is_sated(tenant, self.waiting[tenant].asked, self.ledger)

    def _pick(self, ranked: Ranked, home: Array) -> None:
        tenant = ranked.job.tenant
        own = self.waiting[tenant]
        own.by_array[home].remove(ranked)
        before = usable_gpus(tenant, own.asked, self.ledger)
        own.asked += ranked.job.min_gpus
        self.windows[home].add(ranked, usable_gpus(tenant, own.asked, self.ledger) - before)
        self.when_picked[ranked.job.id] = self.shares.of(tenant)
        self.shares.add(tenant, self.units(ranked))
        self.picked.append(ranked)

    def _entry(self, tenant: int) -> tuple[float, int, int] | None:
        head = self.waiting[tenant].head(self.windows)
        return None if head is None else (self.shares.of(tenant), head[0].rank, tenant)


def _by_tenant(
    lines: Mapping[tuple[int, Array], Iterable[Ranked]], windows: Mapping[Array, ArrayWindow]
) -> dict[int, _Waiting]:
    waiting: dict[int, _Waiting] = {}
    for (tenant, home), jobs in lines.items():
        waiting.setdefault(tenant, _Waiting()).by_array[home] = deque(jobs)
    for tenant, own in waiting.items():
        for home in own.by_array:
            windows[home].tenants.add(tenant)
    return waiting


def standings_of(windows: Windows) -> dict[int, Standing]:
    """Each picked job's array, side of the window and turn in it (1 = picked first)."""
    found: dict[int, Standing] = {}
    for array, window in windows.by_array.items():
        fronts = len(window.front)
        for turn, ranked in enumerate(window.picked, start=1):
            found[ranked.job.id] = Standing(str(array), Side.FRONT if turn <= fronts else Side.BACKFILL, turn)
    return found


def views_of(windows: Windows) -> list[WindowView]:
    """The window of every GPU array, also an empty one."""
    return [
        WindowView(str(array), each.capacity, each.idle, each.counted, len(each.picked), len(each.front))
        for array, each in windows.by_array.items()
    ]


def shares_of(resource: str, before: Mapping[int, float], shares: Shares, capacity: float) -> list[ShareView]:
    """Each tenant's holding (`before`) and its share with its picks (`shares`), in tenants' order."""
    return [
        ShareView(tenant, resource, before.get(tenant, 0.0), units, capacity, shares.weights.get(tenant, 1.0))
        for tenant, units in sorted(shares.held.items())
    ]
