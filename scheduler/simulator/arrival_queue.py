"""The queue of a policy that serves the first job first. It stays in order between plannings and is not sorted again.

Section 3: FIFO orders by seconds since submission, so two jobs never change places; ties go to the lower id. The queue is the
same sequence that `order` would give. A job is described when it is looked at.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from scheduler.fairness.lrf import Age, latency_ratio
from scheduler.model import Job, Lines, Ranked

if TYPE_CHECKING:
    from scheduler.simulator.load import Load

    Key = tuple[float, int]


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
        return Ranked(job, rank, self._now_s - job.submitted_s, ratio, own.age_s, own.source)


def _key(load: Load) -> Key:
    return (load.traced.job.submitted_s, load.id)
