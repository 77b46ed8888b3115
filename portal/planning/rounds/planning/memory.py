"""The parts of the last planning that this process keeps: the queue's rows, its jobs as scheduler's values, prices.

The queue is brought up to date: of 100 000 waiting jobs a planning reads those that changed. Triggers note who came, changed or
left (`QueueChange`). A look reads all notes of transactions that were not over when the last look began. On Postgres these are
the ones at or after that look's oldest transaction, however late they commit; on SQLite one writes at a time, so later notes
have higher numbers. A look is one snapshot of the database: the number of jobs and the sum of their numbers are compared with it
each time, and now and then all of them. A row that differs is read whole, as it is by a process that remembers nothing.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
from django.db import connection, transaction
from django.utils import timezone

from portal.planning.estimation.models import JobProgress
from portal.planning.rounds.planning.queued import QueuedJob, Waits, cell, queue_count, queue_load, queue_rows
from portal.work.jobs.models import QueueChange
from portal.work.jobs.states import QUEUED
from scheduler.placement import work as placement

if TYPE_CHECKING:
    from scheduler import model


log = logging.getLogger(__name__)

WHOLE_FROM_SHARE = 0.5
"""From so large a share of changed jobs on, the whole queue is read: it costs no more."""
FORGET_S = 1800.0
"""A memory older than this, by either clock, is not brought up to date: notes are deleted after NOTES_KEPT."""
NOTES_KEPT = timedelta(hours=2)
COMPARED_EVERY = 200
"""Looks after which all jobs are read and compared with the memory."""


@dataclass(frozen=True, slots=True)
class Look:
    """The queue, oldest job first, and the jobs changed since this process's last look; None: all of them may have."""

    rows: list[QueuedJob]
    changed: frozenset[int] | None


@dataclass(slots=True)
class KeptQueue:
    """One process's memory of the queue; nothing in it at first."""

    rows: dict[int, QueuedJob] = field(default_factory=dict)
    horizon: int | None = None
    at_s: float = 0.0  # monotonic, which stands still while the machine sleeps
    at_unix_s: float = 0.0  # which may be set
    looks: int = 0

    def look(self) -> Look:
        """Return the queue as it is. Within a transaction it is read whole: its own writes may yet be undone."""
        if connection.in_atomic_block:
            self.horizon = None
            return Look(queue_load(), None)
        with one_look():
            return self._look()

    def _look(self) -> Look:
        horizon, before = _horizon(), self.horizon
        old = time.monotonic() - self.at_s > FORGET_S or not 0 <= time.time() - self.at_unix_s <= FORGET_S
        self.looks += 1
        changed = None if before is None or old else self._update(before)
        if changed is not None and self.looks % COMPARED_EVERY == 0 and list(self.rows.values()) != queue_load():
            log.error("the queue remembered differs from the database: all jobs are read")
            changed = None
        if changed is None:
            self.rows = {row.pk: row for row in queue_load()}
        self.horizon, self.at_s, self.at_unix_s = horizon, time.monotonic(), time.time()
        return Look(list(self.rows.values()), changed)

    def _update(self, horizon: int) -> frozenset[int] | None:
        """Read the changes since; None where the whole is to be read."""
        later = {"stamp__gte": horizon} if connection.vendor == "postgresql" else {"pk__gt": horizon}
        ids = set(QueueChange.objects.filter(**later).order_by().values_list("job_id", flat=True))
        if len(ids) > WHOLE_FROM_SHARE * len(self.rows) + 100:
            return None
        fresh = {row.pk: row for row in queue_rows(ids)} if ids else {}
        for gone in ids - fresh.keys():
            self.rows.pop(gone, None)
        came = fresh.keys() - self.rows.keys()
        last = max(self.rows, default=0)
        self.rows |= fresh
        if any(pk < last for pk in came):
            self.rows = dict(sorted(self.rows.items()))
        elif len(came) > 1:
            for pk in sorted(came):  # behind the others, in their order
                self.rows[pk] = self.rows.pop(pk)
        moved = self._progressed()
        count, total = queue_count()
        if (len(self.rows), sum(self.rows)) != (count, total):
            log.error("the queue remembered has %d jobs, the database %d: all are read", len(self.rows), count)
            return None
        return frozenset(ids | moved)

    def _progressed(self) -> set[int]:
        """Take up how far waiting jobs that ran before say they are: that stands in another table."""
        told = dict(JobProgress.objects.filter(job__state__in=QUEUED).values_list("job_id", "fraction"))
        known = {pk: row.done_fraction for pk, row in self.rows.items() if row.done_fraction is not None}
        moved = {pk for pk in told.keys() | known.keys() if told.get(pk) != known.get(pk)} & self.rows.keys()
        for pk in moved:
            self.rows[pk] = self.rows[pk]._replace(done_fraction=told.get(pk))
        return moved


@contextmanager
def one_look() -> Iterator[None]:
    """Read all that follows as of one moment, without locks."""
    if connection.vendor == "postgresql":
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield
        return
    with connection.cursor() as cursor:
        cursor.execute("BEGIN DEFERRED")  # Django's own transactions would keep other writers out
        try:
            yield
        finally:
            cursor.execute("ROLLBACK")  # nothing was written


def notes_expire() -> int:
    return QueueChange.objects.filter(at__lt=timezone.now() - NOTES_KEPT).delete()[0]


def _horizon() -> int:
    """Return the moment of this look: notes that come later, or from a transaction still under way, count from there on."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT txid_snapshot_xmin(txid_current_snapshot())")
        else:
            cursor.execute("SELECT COALESCE((SELECT seq FROM sqlite_sequence WHERE name = 'jobs_queuechange'), 0)")
        return cursor.fetchone()[0]


@dataclass(frozen=True, slots=True)
class Beside:
    """The sources of a job's description beside its row. `common`: the same for every job."""

    blocked: Mapping[int, Waits]  # jobs and arrays
    promises: Mapping[int, model.Promise]
    profiled: Mapping[int, datetime]
    apart: Mapping[int, frozenset[str]]
    refused: Mapping[int, str]  # jobs and arrays whose image may no longer be used
    common: Any

    def differing(self, last: Beside, rows: list[QueuedJob]) -> set[int]:
        """Return the jobs for which it is not as it was."""
        found = {
            job
            for now, before in (
                (self.promises, last.promises),
                (self.profiled, last.profiled),
                (self.apart, last.apart),
            )
            for job in now.keys() | before.keys()
            if now.get(job) != before.get(job)
        }
        refused = self.refused.items() ^ last.refused.items()
        if moved := {each for each, _ in (self.blocked.items() ^ last.blocked.items()) | refused}:
            found |= {row.pk for row in rows if row.pk in moved or row.array_id in moved}
        return found


@dataclass(slots=True)
class KeptJobs:
    """Descriptions by job. Only those that changed are made anew; in the others only the waiting time moves on."""

    jobs: dict[int, model.Job] = field(default_factory=dict)
    beside: Beside | None = None

    def describe(
        self, look: Look, beside: Beside, now_s: float, make: Callable[[QueuedJob], model.Job]
    ) -> list[model.Job]:
        """Return the queue's descriptions, in its order. Those of the last planning are not to be used any more."""
        rows, last, known = look.rows, self.beside, self.jobs
        if look.changed is None or last is None or beside.common != last.common:
            self.jobs = {row.pk: make(row) for row in rows}
        else:
            anew = look.changed | beside.differing(last, rows)
            ids = map(cell("pk"), rows)
            self.jobs = {
                pk: make(row) if pk in anew or (job := known.get(pk)) is None else job
                for pk, row in zip(ids, rows, strict=True)
            }
            _move_on(self.jobs.values(), rows, now_s)
        self.beside = beside
        return list(self.jobs.values())


def _move_on(jobs: Collection[model.Job], rows: Sequence[QueuedJob], now_s: float) -> None:
    """Let the jobs have waited until now. They are frozen for the scheduler; here a new planning begins."""
    waited_s, since_s = (
        np.array(list(map(cell(each), rows)), dtype=np.float64) for each in ("waited_s", "waiting_since_s")
    )  # None: NaN
    waits_s = waited_s + np.maximum(0.0, now_s - since_s)
    move = object.__setattr__
    for job, wait_s in zip(jobs, waits_s.tolist(), strict=True):
        if wait_s == wait_s:  # noqa: PLR0124 - else NaN: it does not wait for its turn
            move(job, "wait_s", wait_s)


@dataclass(slots=True)
class Memory:
    """The memory of one process; a new one reads all."""

    queue: KeptQueue = field(default_factory=KeptQueue)
    jobs: KeptJobs = field(default_factory=KeptJobs)
    solved: placement.Memory = placement.NOTHING  # the solver leaves this to the next planning


_memory, _lock = Memory(), threading.Lock()


@contextmanager
def memory_taken() -> Iterator[Memory]:
    """Give this process's memory, or an empty one while another thread plans with it.

    It is lost when the planning fails at any place: the rows read by then may not have been taken up.
    """
    if not _lock.acquire(blocking=False):
        yield Memory()
        return
    try:
        yield _memory
    except BaseException:
        memory_lose()
        raise
    finally:
        _lock.release()


def memory_lose() -> None:
    """Forget: the next planning reads all."""
    global _memory  # noqa: PLW0603 - one memory a process is the point
    _memory = Memory()
