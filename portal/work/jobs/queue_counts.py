"""Waiting jobs, counted by the database: how many, their needs, how long, and why. All tenants' together.

The words, the same on every page, in REST and in `/metrics`: a job *waits* while it is PENDING. Of those that wait the
*eligible* ones wait for their turn or for room; the others are *set aside*, by their tenant's quota, a dependency or a
description that cannot be planned. A *held* job does not wait. Each task of an array is a job, once it has been made.

One query gives the whole queue as groups of equal state, reason and smallest size: some dozens of rows, however many jobs
wait. The index `job_unfinished_counts` holds every column that it reads. No number here is cut off.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db.models import Count, F, FloatField, Func, Max, Q, Sum, Value
from django.db.models.functions import Greatest

from portal.foundation.bulk import among
from portal.work.jobs.models import Job
from portal.work.jobs.states import QUEUED, JobState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from django.db.models import Expression, QuerySet

ELIGIBLE = Q(state=JobState.PENDING, waiting_since__isnull=False)
"""The jobs whose waiting counts: not held, no dependency, within their tenant's quota."""
STRETCH = 1000
"""The number of jobs that are read at a time where the first few of an order are looked for."""


class SecondsUntil(Func):
    """Seconds from a moment (first argument) until another, made by the database as a float."""

    arity = 2
    output_field = FloatField()
    template = "%(expressions)s"

    def as_sqlite(self, compiler: Any, connection: Any, **_: Any) -> Any:
        (since, first), (until, second) = (compiler.compile(each) for each in self.source_expressions)
        return f"((julianday({until}) - julianday({since})) * 86400.0)", (*second, *first)

    def as_postgresql(self, compiler: Any, connection: Any, **_: Any) -> Any:
        (since, first), (until, second) = (compiler.compile(each) for each in self.source_expressions)
        return f"date_part('epoch', {until}::timestamptz - {since})", (*second, *first)


UNTOLD = (0.0, 0, None, None)
"""The times and ratios of a group that has none."""


@dataclass(frozen=True, slots=True)
class QueueGroup:
    """Waiting jobs of one state, reason and smallest size. `counts`: they are eligible. Times in s.

    `ratios` of them have a latency ratio (the others have not been planned yet); `ratio_sum` and `ratio_max` are of those.
    Jobs that are not eligible have neither these nor `longest_s`: 0 and None.
    """

    state: str
    reason: str
    gpus: int
    counts: bool
    jobs: int
    longest_s: float
    ratios: int
    ratio_sum: float | None
    ratio_max: float | None

    @property
    def is_held(self) -> bool:
        return self.state == JobState.HELD


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """The queue in figures, as of one moment."""

    groups: tuple[QueueGroup, ...]

    @property
    def eligible(self) -> list[QueueGroup]:
        return [group for group in self.groups if group.counts]

    @property
    def jobs(self) -> int:
        """The eligible jobs."""
        return sum(group.jobs for group in self.eligible)

    @property
    def set_aside(self) -> Counter[str]:
        """Count the jobs that wait but are not eligible, by reason."""
        return _summed((group.reason, group.jobs) for group in self.groups if not group.counts and not group.is_held)

    @property
    def held(self) -> int:
        return sum(group.jobs for group in self.groups if group.is_held)

    @property
    def waiting(self) -> int:
        """All that wait: the eligible ones and those set aside."""
        return self.jobs + self.set_aside.total()

    @property
    def gpus(self) -> int:
        """The sums of the smallest sizes of the eligible jobs."""
        return sum(group.jobs * group.gpus for group in self.eligible)

    @property
    def oldest_s(self) -> float | None:
        """The longest eligible waiting so far; None when nobody waits."""
        return max((group.longest_s for group in self.eligible), default=None)

    @property
    def ratio_mean(self) -> float | None:
        """The mean latency ratio of the eligible jobs that have one (algorithms, section 3)."""
        count = sum(group.ratios for group in self.eligible)
        return sum(group.ratio_sum or 0.0 for group in self.eligible) / count if count else None

    @property
    def ratio_max(self) -> float | None:
        return max((group.ratio_max for group in self.eligible if group.ratio_max is not None), default=None)

    def by_size(self, groups: Iterable[QueueGroup]) -> Counter[int]:
        """Count GPU jobs by smallest size."""
        return _summed((group.gpus, group.jobs) for group in groups if group.gpus)

    def aside(self) -> Counter[str]:
        """Count the jobs that do not wait for their turn, by the reason: held, dependency, tenant-quota ..."""
        return self.set_aside + Counter({"held": self.held})


def queue_told(queue: QueueCounts) -> dict[str, Any]:
    """Return REST's answer about the queue."""
    aside = {reason or "none": count for reason, count in sorted(queue.set_aside.items())}
    return {"waiting": queue.waiting, "eligible": queue.jobs, "set_aside": aside, "held": queue.held}


def _summed(pairs: Iterable[tuple[Any, int]]) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for key, count in pairs:
        found[key] += count
    return found


def waiting_jobs() -> QuerySet[Job]:
    """Return the waiting and held jobs without arrays' parents. `ended_at` is named for the index's sake: none has ended."""
    return Job.objects.runnable().filter(state__in=QUEUED, cancel_requested_at=None, ended_at=None)


def queue_counts(*, now: datetime | None) -> QueueCounts:
    """Count the whole queue. One query, grouped as the index stands, so that nothing is sorted.

    `now` None: jobs are counted, and no group has its times and ratios, which take two thirds of the query's time.
    """
    rows = waiting_jobs().order_by().values_list("state", "reason", "gpus_least").annotate(jobs=Count("*"))
    rows = rows.annotate(turn=Count("state", filter=ELIGIBLE), **({} if now is None else _times(now)))
    groups = [group for row in rows for group in _groups(*row) if group.jobs]
    return QueueCounts(tuple(sorted(groups, key=lambda group: (group.state, group.reason, group.gpus, group.counts))))


def _times(now: datetime) -> dict[str, Expression]:
    """Return the times and ratios of a group's eligible jobs, in the order of `QueueGroup`."""
    waited = F("waited_s") + Greatest(SecondsUntil(F("waiting_since"), Value(now)), Value(0.0))
    ratio, aged = waited / F("age_s"), ELIGIBLE & Q(age_s__gt=0)
    return {
        "longest": Max(waited, output_field=FloatField(), filter=ELIGIBLE),
        "ratios": Count("state", filter=aged),
        "total": Sum(ratio, output_field=FloatField(), filter=aged),
        "most": Max(ratio, output_field=FloatField(), filter=aged),
    }


def _groups(state: str, reason: str, gpus: int, jobs: int, turn: int, *told: Any) -> tuple[QueueGroup, QueueGroup]:
    """Return the eligible ones of a row and the others."""
    aside = QueueGroup(state, reason, gpus, False, jobs - turn, *UNTOLD)
    return aside, QueueGroup(state, reason, gpus, True, turn, *(told or UNTOLD))


def demand_by_types() -> list[tuple[int, list[str], int]]:
    """Return (smallest size, allowed GPU types, jobs) of the eligible GPU jobs; no types: any. One query."""
    eligible = waiting_jobs().filter(ELIGIBLE, gpus_least__gt=0).order_by()
    return list(eligible.values_list("gpus_least", "gpu_types").annotate(jobs=Count("pk")))


def first_in_order(ranked: Iterable[int], *, count: int) -> list[tuple[Job, int]]:
    """Return the first `count` eligible jobs of an order, an array's tasks as one, each with how many it stands for.

    `ranked`: ids in the order of the last planning, gone ones among them. Jobs that are not named stand behind, by age.
    """
    ids = [int(each) for each in ranked]
    found: dict[tuple[str, int], int] = {}
    for job, array in _candidates(ids):
        found.setdefault(("array", array) if array else ("job", job), job)
        if len(found) == count:
            break
    jobs = Job.objects.select_related("tenant").in_bulk(list(found.values()))
    arrays = [array for kind, array in found if kind == "array"]
    sizes = waiting_jobs().filter(ELIGIBLE, array__in=arrays).order_by().values_list("array").annotate(n=Count("pk"))
    tasks = dict(sizes) if arrays else {}
    return [
        (jobs[first], tasks.get(key, 1) if kind == "array" else 1)
        for (kind, key), first in found.items()
        if first in jobs  # it may have gone between the two queries
    ]


def _candidates(ids: list[int]) -> Iterator[tuple[int, int | None]]:
    """Yield (id, array) of the eligible jobs in order, a stretch at a time: a few hundred suffice as a rule."""
    eligible = waiting_jobs().filter(ELIGIBLE).order_by()
    for start in range(0, len(ids), STRETCH):
        stretch = ids[start : start + STRETCH]
        arrays = dict(eligible.filter(pk__in=among(stretch)).values_list("pk", "array_id"))
        yield from ((job, arrays[job]) for job in stretch if job in arrays)
    later, last = eligible.exclude(pk__in=among(ids)).order_by("pk"), 0
    while rows := list(later.filter(pk__gt=last).values_list("pk", "array_id")[:STRETCH]):
        yield from rows
        last = rows[-1][0]
