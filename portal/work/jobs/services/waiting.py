"""Write down why jobs wait, and count the eligible part of their waiting (algorithms, section 3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from portal.foundation.bulk import Epoch, among, rows_update
from portal.work.jobs.models import Attempt, Job, Promise
from portal.work.jobs.states import LIVE, QUEUED, JobState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime


AGE_STEP = 0.05
"""A waiting job's stored age is rewritten when it moved by more than this share."""

HELD = "held"
TOLD = ("reason", "in_window", "reason_figures", "reason_at")
COUNTED = ("waiting_since", "waited_s")
AGED = ("age_s", "age_source")
_READ = ("pk", "state", "started_at", "reason", "in_window", Epoch("waiting_since"), "waited_s", "age_s")


class WaitingNote(NamedTuple):
    """A planning's note on a job that it did not place. `counts`: its waiting counts from here on."""

    job_id: int
    reason: str
    figures: dict[str, Any]  # one object for many jobs with the same figures
    inside_window: bool
    counts: bool
    age_s: float | None
    age_source: str


@dataclass(slots=True)
class _Waiting:
    """The fields of a waiting job that a note may change, those of _READ."""

    pk: int
    state: str
    started_at: datetime | None
    reason: str
    in_window: bool | None
    waiting_since_s: float | None
    waited_s: float
    age_s: float | None


def waiting_note(*, notes: Sequence[WaitingNote], now: datetime) -> int:
    """Store the notes that changed; return of how many jobs. One read, and one update for each kind of change.

    The caller holds the jobs' locks, so that nobody cancels or holds one between the look and the write.
    """
    if not notes:
        return 0
    by_job = {note.job_id: note for note in notes}
    read = Job.objects.filter(pk__in=among(by_job), state__in=QUEUED).order_by()
    kinds: dict[tuple[bool, bool, bool], list[tuple[Any, ...]]] = {}
    for stored in read.values_list(*_READ):
        job = _Waiting(*stored)
        note, before = by_job[job.pk], (job.reason, job.in_window, job.waiting_since_s, job.age_s)
        if not _set(job=job, note=note, now=now):
            continue
        told = before[:2] != (job.reason, job.in_window)
        counted, aged = before[2] != job.waiting_since_s, before[3] != job.age_s
        row: tuple[Any, ...] = (job.pk,)
        if told:
            row += (job.reason, job.in_window, note.figures, now)
        if counted:
            row += (None if job.waiting_since_s is None else now, job.waited_s)
        if aged:
            row += (job.age_s, note.age_source)
        kinds.setdefault((told, counted, aged), []).append(row)
    for kind, rows in kinds.items():
        fields = [name for group, changed in zip((TOLD, COUNTED, AGED), kind, strict=True) if changed for name in group]
        rows_update(model=Job, fields=fields, rows=rows)
    return sum(map(len, kinds.values()))


def _set(*, job: _Waiting, note: WaitingNote, now: datetime) -> bool:
    """Set a note on what is stored of a job; return whether anything changed.

    `portal.planning.rounds.planning.apply` asks the same in columns.
    """
    if (job.state == JobState.HELD) != (note.reason == HELD):
        return False  # held or released since the snapshot: the note is no longer about this job
    changed = False
    if (job.reason, job.in_window) != (note.reason, note.inside_window):
        job.reason, job.in_window, changed = note.reason, note.inside_window, True
    counts = note.counts and job.state == JobState.PENDING
    if counts and job.waiting_since_s is None:
        job.waiting_since_s, changed = now.timestamp(), True
    elif not counts and job.waiting_since_s is not None:
        job.waited_s += max(0.0, now.timestamp() - job.waiting_since_s)
        job.waiting_since_s, changed = None, True
    moved = note.age_s and (job.age_s is None or abs(note.age_s - job.age_s) > AGE_STEP * job.age_s)
    if moved and job.started_at is None:
        job.age_s, changed = note.age_s, True
    return changed


ShareRow = tuple[int, ...]
"""Node id, GPUs, cores, memory in MiB; a fifth number where the GPUs are not of the type that the node goes by: their type."""


def promise_give(
    *, job_id: int, shares: Sequence[ShareRow], cause: str, planning_number: int, cores_wanted: int | None
) -> bool:
    """Keep these resources for a job that waits, or that is being stopped to go on there; False when it does neither.

    The caller holds the job's lock. A second promise takes the place of the first.
    """
    stopping = Attempt.objects.runs().live().filter(job=OuterRef("pk")).exclude(stop_reason="")
    may = Q(state__in=[JobState.PENDING, JobState.PREEMPTED]) | Q(Exists(stopping), state__in=LIVE)
    if not Job.objects.filter(may, pk=job_id, cancel_requested_at=None).exists():
        return False
    values = {
        "shares": [list(share) for share in shares],
        "cause": cause,
        "planning_number": planning_number,
        "given_at": timezone.now(),
        "cores_wanted": cores_wanted,
    }
    Promise.objects.update_or_create(job_id=job_id, defaults=values)
    return True


def promises_withdraw(*, job_ids: Iterable[int]) -> int:
    """Give up what is kept for these jobs; return for how many of them something was kept."""
    wanted = list(job_ids)
    return Promise.objects.filter(job__in=wanted).delete()[0] if wanted else 0
