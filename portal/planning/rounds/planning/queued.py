"""The queue as light rows: only the columns that the scheduler needs, for there may be 100 000 waiting jobs.

A row has the attributes of `Job` that a snapshot asks for. Requirement sets and GPU types come as their text: most jobs
share a few, so each is parsed once and shared. Moments come as Unix seconds: 300 000 datetimes cost a second.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from datetime import UTC, datetime
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple

from django.db.models import BooleanField, Count, ExpressionWrapper, F, Q, QuerySet, Sum, TextField
from django.db.models.functions import Cast
from django.utils import timezone

from portal.foundation.bulk import Epoch, among
from portal.work.jobs.models import Job, JobDependency
from portal.work.jobs.services.asked.dependencies import dependencies_open
from portal.work.jobs.states import QUEUED

Waits = tuple[float, ...]
"""The Unix time for which a blocked job waits; none: it waits for other jobs. Bare, for 100 000 jobs may wait for theirs."""
LAST_S = 253_402_300_799
"""The last second of the year 9999. SQLite rounds a time after it up to a year that it does not know."""


class QueuedJob(NamedTuple):
    """One waiting or held job. The fields are what `queue_load` reads, in its order."""

    pk: int
    tenant_id: int
    owner_id: int
    array_id: int | None
    state: str
    gpus_text: str
    gpu_types_text: str
    submitted_s: float
    waiting_since_s: float | None
    waited_s: float
    started: bool
    age_s: float | None
    age_source: str
    priority: int
    category: str | None
    model: str
    cores: int | None
    cores_per_gpu: int | None
    cores_exactly: bool
    cores_tuned: int | None  # tuned cores of an earlier attempt
    memory_mib: int | None
    shareable: bool
    gpu_compute: int | None
    gpu_memory_mib: int | None
    gpu_memory_whole: bool
    latency_class: str
    pipelined: bool | None
    parameters: int | None
    heavy_between_iterations: bool | None
    instrumented: bool
    expected_duration_s: float | None
    time_limit_s: int | None
    samples: int | None
    checkpointable: bool
    restartable: bool
    checkpoint_domain: str
    software_need: str
    epoch: int
    called_back_epoch: int | None
    attained_gpu_s: float
    done_fraction: float | None
    reason: str
    in_window: bool | None

    @property
    def gpus(self) -> tuple[int, ...]:
        return _numbers(self.gpus_text)

    @property
    def gpu_types(self) -> frozenset[str]:
        return _names(self.gpu_types_text)

    @property
    def is_requeueable(self) -> bool:
        return Job.is_requeueable.fget(self)  # type: ignore[attr-defined]  # the same rule for both

    @property
    def gave_back(self) -> bool:
        return Job.gave_back.fget(self)  # type: ignore[attr-defined]  # the same rule for both


def cell(name: str) -> itemgetter[Any]:
    """Return a getter of a row's field of that name by its place: of 100 000 rows that is quicker than by name."""
    return itemgetter(QueuedJob._fields.index(name))


@lru_cache(maxsize=4096)
def _numbers(text: str) -> tuple[int, ...]:
    return tuple(json.loads(text))


@lru_cache(maxsize=4096)
def _names(text: str) -> frozenset[str]:
    return frozenset(json.loads(text))


def queue_load() -> list[QueuedJob]:
    """Return the waiting and held jobs, oldest first, one query: not those that are being cancelled, nor arrays' parents."""
    return _read(_waiting())


def queue_rows(ids: Collection[int]) -> list[QueuedJob]:
    """Return those of these jobs that wait or are held, as `queue_load` would, in no order. One query."""
    return _read(_waiting().filter(pk__in=among(ids)))


def queue_count() -> tuple[int, int]:
    """Return how many jobs `queue_load` would return, and the sum of their ids. One query."""
    told = _waiting().order_by().aggregate(n=Count("pk"), total=Sum("pk"))
    return told["n"], told["total"] or 0


def _waiting() -> QuerySet[Job]:
    return Job.objects.runnable().filter(state__in=QUEUED, cancel_requested_at=None).order_by("pk")


def _read(waiting: QuerySet[Job]) -> list[QueuedJob]:
    rows = waiting.annotate(
        gpus_text=Cast("gpus", TextField()),
        gpu_types_text=Cast("gpu_types", TextField()),
        submitted_s=Epoch("submitted_at"),
        waiting_since_s=Epoch("waiting_since"),
        started=ExpressionWrapper(Q(started_at__isnull=False), BooleanField()),
        done_fraction=F("progress__fraction"),
        cores_tuned=F("core_tuning__cores_per_gpu"),
    )
    return [QueuedJob._make(row) for row in rows.values_list(*QueuedJob._fields)]


def jobs_blocked() -> dict[int, Waits]:
    """Return the jobs, and arrays, that wait for a time, or a dependency whose condition has not come true yet. Two queries."""
    waiting = JobDependency.objects.filter(dependencies_open(), job__state__in=QUEUED)
    later = Job.objects.filter(start_after__gt=timezone.now(), ended_at=None).order_by()
    times = {
        pk: (LAST_S if at_s is None else at_s,)
        for pk, at_s in later.annotate(at_s=Epoch("start_after")).values_list("pk", "at_s")
    }
    return times | dict.fromkeys(waiting.order_by().values_list("job_id", flat=True), ())


def waits_of(job: Any, *, blocked: bool) -> Waits | None:
    """Return the reasons of a job that is not stored to wait; None: only for its turn. `blocked`: by a dependency."""
    if blocked:
        return ()
    return (job.start_after.timestamp(),) if job.start_after and job.start_after > timezone.now() else None


def waits_figures(waits: Waits) -> dict[str, Any]:
    """Return the figures of a blocked job's decision."""
    if not waits:
        return {}
    at_s = round(waits[0], 3)  # as exact as of SQLite
    at = datetime.fromtimestamp(min(at_s, LAST_S), UTC)
    return {"until": f"{at:%Y-%m-%d %H:%M:%S} UTC", "until_s": at_s}
