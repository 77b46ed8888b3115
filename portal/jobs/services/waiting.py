"""Write down why jobs wait, and count the eligible part of their waiting (algorithms, section 3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from portal.jobs.models import Job
from portal.jobs.states import QUEUED, JobState

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

AGE_STEP = 0.05
"""A waiting job's stored age is rewritten when it moved by more than this share."""

BATCH = 500
HELD = "held"
FIELDS = ["reason", "reason_figures", "reason_at", "in_window", "waiting_since", "waited_s", "age_s", "age_source"]


@dataclass(frozen=True)
class WaitingNote:
    """What a planning says of a job it did not place. `counts`: its waiting counts from here on."""

    job_id: int
    reason: str
    figures: dict[str, Any]
    inside_window: bool
    counts: bool
    age_s: float | None
    age_source: str


def notes_changed(*, notes: Sequence[WaitingNote], now: datetime) -> list[WaitingNote]:
    """Return the notes that would change what is stored: one query, no lock. `waiting_note` looks again under one."""
    known = {
        job.pk: job for job in Job.objects.runnable().filter(state__in=QUEUED).only("state", "started_at", *FIELDS)
    }
    return [note for note in notes if (job := known.get(note.job_id)) and _note_set(job=job, note=note, now=now)]


def waiting_note(*, notes: Sequence[WaitingNote], now: datetime) -> int:
    """Store what changed of the notes; return how many jobs that were. Two queries per 500 notes.

    The caller holds the jobs' locks, so that nobody cancels or holds one between the look and the write.
    """
    count = 0
    for start in range(0, len(notes), BATCH):
        batch = {note.job_id: note for note in notes[start : start + BATCH]}
        known = Job.objects.filter(pk__in=list(batch), state__in=QUEUED)
        changed = [job for job in known if _note_set(job=job, note=batch[job.pk], now=now)]
        Job.objects.bulk_update(changed, FIELDS, batch_size=BATCH)
        count += len(changed)
    return count


def _note_set(*, job: Job, note: WaitingNote, now: datetime) -> bool:
    """Set a note on a job; return whether a stored field changed."""
    if (job.state == JobState.HELD) != (note.reason == HELD):
        return False  # held or released since the snapshot: the note is no longer about this job
    changed = False
    if (job.reason, job.in_window) != (note.reason, note.inside_window):
        job.reason, job.in_window, job.reason_at, job.reason_figures = (
            note.reason,
            note.inside_window,
            now,
            note.figures,
        )
        changed = True
    counts = note.counts and job.state == JobState.PENDING
    if counts and job.waiting_since is None:
        job.waiting_since, changed = now, True
    elif not counts and job.waiting_since is not None:
        job.waited_s += max(0.0, (now - job.waiting_since).total_seconds())
        job.waiting_since, changed = None, True
    if job.started_at is None and note.age_s and _moved(job.age_s, note.age_s):
        job.age_s, job.age_source, changed = note.age_s, note.age_source, True
    return changed


def _moved(old: float | None, new: float) -> bool:
    return old is None or abs(new - old) > AGE_STEP * old
