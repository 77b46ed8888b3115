"""Array jobs: a parent stands for its tasks. Tasks are made a few at a time, so that 100 000 tasks do no harm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db.models import Count
from django.utils import timezone

from portal.foundation.bulk import among
from portal.foundation.events.services import jobs_tell
from portal.work.jobs.declaration.table import BY_NAME, COLUMNS
from portal.work.jobs.models import Job
from portal.work.jobs.services.events import events_record
from portal.work.jobs.states import ACTIVE, FINAL, LIVE, QUEUED, RETRIED, JobState

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

TASKS_AHEAD = 100
"""Waiting tasks kept as rows. More are made as these start; the concurrency cap bounds all that have not ended."""

_COPIED = (
    "tenant_id",
    "owner_id",
    "software_need",
    *(name for name in COLUMNS if name not in BY_NAME["array"].columns),
)


def array_top_up(*, parent: Job, counts: Mapping[str, int]) -> int:
    """Make the tasks that are due; return how many. The caller holds a transaction and counted the tasks in it."""
    if parent.state in FINAL:
        return 0
    count = min(array_room(parent=parent, counts=counts), parent.array_size - parent.array_made)
    if count <= 0:
        return 0
    first = parent.array_made
    # The conditional update makes sure that two at once do not make the same tasks.
    if not Job.objects.filter(pk=parent.pk, array_made=first).update(array_made=first + count):
        return 0
    now = timezone.now()
    copied = {name: getattr(parent, name) for name in _COPIED}
    waiting_since = None if parent.dependencies.exists() else now
    Job.objects.bulk_create(
        Job(**copied, array=parent, array_index=index, submitted_at=parent.submitted_at, waiting_since=waiting_since)
        for index in range(first, first + count)
    )
    return count


def array_room(*, parent: Job, counts: Mapping[str, int]) -> int:
    """Say how many more tasks may wait now; below 1: none."""
    if parent.cancel_requested_at or parent.state == JobState.HELD:
        return 0
    room = TASKS_AHEAD - sum(counts.get(state, 0) for state in QUEUED)
    if parent.array_concurrency:
        room = min(room, parent.array_concurrency - sum(counts.get(state, 0) for state in ACTIVE))
    return room


def counts_after(parent: Job, moved: Mapping[str, int]) -> dict[str, int] | None:
    """Return the stored counts after `moved`; None when they would be impossible and must be counted anew.

    The parent's row lock makes each move counted once: each move of a task is added here before it is committed.
    """
    counts = {str(state): n for state, n in parent.array_counts.items()}
    for state, n in moved.items():
        counts[str(state)] = counts.get(str(state), 0) + n
    if any(n < 0 for n in counts.values()) or sum(counts.values()) != parent.array_made:
        return None
    return {state: n for state, n in counts.items() if n}


def array_state(*, counts: Mapping[str, int], parent: Job) -> JobState:
    """Return the state of an array as a whole: live while a task is live, and at the end the worst end of its tasks."""
    unfinished = sum(counts.get(state, 0) for state in ACTIVE)
    more_to_come = (parent.array_made < parent.array_size or parent.array_retries) and not parent.cancel_requested_at
    if unfinished or more_to_come:
        if parent.state == JobState.HELD:  # until it is released, though tasks that had started run on
            return JobState.HELD
        started = any(counts.get(state) for state in LIVE | FINAL)
        return JobState.RUNNING if started else JobState.PENDING
    for state in (JobState.FAILED, JobState.OUT_OF_MEMORY, JobState.TIMEOUT, JobState.NODE_FAIL):
        if counts.get(state):
            return state
    if counts.get(JobState.CANCELLED) or parent.cancel_requested_at:
        return JobState.CANCELLED
    return JobState.COMPLETED


def counts_in_words(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{n} {JobState(state).label.lower()}" for state, n in sorted(counts.items()))


def state_counts(*, array_id: int) -> dict[str, int]:
    rows = Job.objects.filter(array_id=array_id).order_by().values_list("state").annotate(n=Count("id"))
    return dict(rows)


def retries_open(*, parent: Job, counts: dict[str, int]) -> None:
    """Let as many marked tasks wait as the array has room for; `counts` and `parent` follow. In `array_refresh` only."""
    room = array_room(parent=parent, counts=counts)
    if room <= 0:
        return
    marked = Job.objects.filter(array=parent, retry_asked_at__isnull=False).order_by("array_index")
    found = list(marked.values_list("pk", "state", "epoch")[:room])
    jobs_reopen([pk for pk, _, _ in found])
    for _, state, _ in found:
        counts[state] -= 1
        counts[JobState.PENDING.value] = counts.get(JobState.PENDING.value, 0) + 1
    for state in [state for state, n in counts.items() if not n]:
        del counts[state]
    # None found: the marks went with rows that a restore or a repair took away, and nothing is to come.
    parent.array_retries = max(0, parent.array_retries - len(found)) if found else 0
    Job.objects.filter(pk=parent.pk).update(array_retries=parent.array_retries)
    events_record(
        kind="retried", texts=[(pk, epoch, "Waits again: its retry was asked for.") for pk, _, epoch in found]
    )
    jobs_tell(job_ids=[pk for pk, _, _ in found])


def jobs_reopen(ids: Collection[int]) -> None:
    """Put failed jobs back into the queue, with their automatic retries and requeues anew."""
    Job.objects.filter(pk__in=among(ids), state__in=RETRIED).update(
        state=JobState.PENDING,
        retry_asked_at=None,
        ended_at=None,
        exit_code=None,
        signal=None,
        end_detail="",
        failures=0,
        requeues=0,
        cancel_requested_at=None,
        waiting_since=timezone.now(),
        reason="not-planned-yet",
        reason_figures={},
        reason_at=None,
        in_window=None,
    )
