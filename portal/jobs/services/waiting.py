"""Write down why jobs wait, and count the eligible part of their waiting (algorithms, section 3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from portal.bulk import among, rows_update
from portal.jobs.models import Job
from portal.jobs.states import QUEUED, JobState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

AGE_STEP = 0.05
"""A waiting job's stored age is rewritten when it moved by more than this share."""

HELD = "held"
FIELDS = ["reason", "reason_figures", "reason_at", "in_window", "waiting_since", "waited_s", "age_s", "age_source"]
_READ = ("pk", "state", "started_at", "reason", "in_window", "waiting_since", "waited_s", "age_s")


@dataclass(frozen=True)
class WaitingNote:
    """What a planning says of a job it did not place. `counts`: its waiting counts from here on."""

    job_id: int
    reason: str
    figures: Mapping[str, Any]
    inside_window: bool
    counts: bool
    age_s: float | None
    age_source: str


class Queued(Protocol):
    """What a snapshot read of a waiting job, as far as a note may change it."""

    pk: int
    state: str
    started: bool
    reason: str
    in_window: bool | None
    waiting_since_s: float | None
    waited_s: float
    age_s: float | None


@dataclass(slots=True)
class _Waiting:
    """What is stored of a waiting job that a note may change; the fields are those of _READ."""

    pk: int
    state: str
    started_at: datetime | None
    reason: str
    in_window: bool | None
    waiting_since: datetime | None
    waited_s: float
    age_s: float | None


def notes_changed(*, notes: Iterable[WaitingNote], queued: Iterable[Queued], now: datetime) -> list[WaitingNote]:
    """Return the notes that would change what the snapshot read of the queue. `waiting_note` looks again under locks."""
    known = {row.pk: row for row in queued}
    return [note for note in notes if (row := known.get(note.job_id)) and _changes(row, note, now)]


def _changes(row: Queued, note: WaitingNote, now: datetime) -> bool:
    since, started = (None if row.waiting_since_s is None else now), (now if row.started else None)
    stored = _Waiting(row.pk, row.state, started, row.reason, row.in_window, since, row.waited_s, row.age_s)
    return _set(job=stored, note=note, now=now)


def waiting_note(*, notes: Sequence[WaitingNote], now: datetime) -> int:
    """Store what changed of the notes; return how many jobs that were. Two queries, however many the notes.

    The caller holds the jobs' locks, so that nobody cancels or holds one between the look and the write.
    """
    by_job = {note.job_id: note for note in notes}
    read = Job.objects.filter(pk__in=among(by_job), state__in=QUEUED).order_by()
    rows = []
    for *fields, figures, reason_at, age_source in read.values_list(
        *_READ, "reason_figures", "reason_at", "age_source"
    ):
        job = _Waiting(*fields)
        note, told, aged = by_job[job.pk], (job.reason, job.in_window), job.age_s
        if _set(job=job, note=note, now=now):
            same = (job.reason, job.in_window) == told
            why = (job.reason, *((figures, reason_at) if same else (dict(note.figures), now)), job.in_window)
            source = age_source if job.age_s == aged else note.age_source
            rows.append((job.pk, *why, job.waiting_since, job.waited_s, job.age_s, source))
    rows_update(model=Job, fields=FIELDS, rows=rows)
    return len(rows)


def _set(*, job: _Waiting, note: WaitingNote, now: datetime) -> bool:
    """Set a note on what is stored of a job; return whether anything changed."""
    if (job.state == JobState.HELD) != (note.reason == HELD):
        return False  # held or released since the snapshot: the note is no longer about this job
    changed = False
    if (job.reason, job.in_window) != (note.reason, note.inside_window):
        job.reason, job.in_window, changed = note.reason, note.inside_window, True
    counts = note.counts and job.state == JobState.PENDING
    if counts and job.waiting_since is None:
        job.waiting_since, changed = now, True
    elif not counts and job.waiting_since is not None:
        job.waited_s += max(0.0, (now - job.waiting_since).total_seconds())
        job.waiting_since, changed = None, True
    if job.started_at is None and note.age_s and _moved(job.age_s, note.age_s):
        job.age_s, changed = note.age_s, True
    return changed


def _moved(old: float | None, new: float) -> bool:
    return old is None or abs(new - old) > AGE_STEP * old
