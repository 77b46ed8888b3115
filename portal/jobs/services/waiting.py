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


def waiting_note(*, notes: Sequence[WaitingNote], now: datetime) -> int:
    """Store what changed of the notes; return how many jobs that were. Two queries and one more per 500 changes."""
    known = Job.objects.filter(pk__in=[note.job_id for note in notes], state__in=QUEUED).in_bulk()
    changed = [job for note in notes if (job := known.get(note.job_id)) and _note_set(job=job, note=note, now=now)]
    Job.objects.bulk_update(changed, FIELDS, batch_size=500)
    return len(changed)


def _note_set(*, job: Job, note: WaitingNote, now: datetime) -> bool:
    """Set a note on a job; return whether a stored field changed."""
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
