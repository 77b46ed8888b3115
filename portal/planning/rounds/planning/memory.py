"""The parts of the last planning that this process keeps: the queue's rows, its jobs as scheduler's values, prices."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from portal.planning.rounds.planning.queue_kept import KeptQueue, Look
from portal.planning.rounds.planning.queued import QueuedJob, Waits, cell
from scheduler.placement import memory as placement

if TYPE_CHECKING:
    from scheduler import model


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
