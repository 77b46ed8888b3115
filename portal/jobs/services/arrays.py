"""Array jobs: a parent that stands for its tasks, and tasks made a few at a time, so that 100 000 flood nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import transaction
from django.utils import timezone

from portal.jobs.models import Job
from portal.jobs.services.changes import event_record, state_counts
from portal.jobs.states import ACTIVE, FINAL, LIVE, QUEUED, JobState

if TYPE_CHECKING:
    from collections.abc import Mapping

TASKS_AHEAD = 100
"""Waiting tasks kept as rows. More are made as these start; the concurrency cap bounds all that have not ended."""

_COPIED = (
    "tenant_id owner_id name labels category pipelined model parameters heavy_between_iterations instrumented gpus gpu_types "
    "cores_per_gpu cores memory_mib disk_gib time_limit_s batch_per_gpu samples learning_rate expected_duration_s checkpointable "
    "restartable retries max_requeues priority"
).split()


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


@transaction.atomic
def array_refresh(*, array_id: int, moved: Mapping[str, int] | None = None) -> None:
    """Bring an array's counts up to date, top its tasks up, and move the parent when they say so.

    `moved` is how many tasks the caller's transaction took out of a state (below 0) or into one, and costs the same
    however many tasks there are; None recounts them all, as the reconciler does.
    """
    parent = Job.objects.select_for_update(no_key=True).get(pk=array_id)
    counts = _counts_after(parent, moved) if moved else None
    if counts is None:
        counts = state_counts(array_id=array_id)
    if parent.array_retries:
        from portal.jobs.services.retrying import retries_open

        retries_open(parent=parent, counts=counts)
    if made := array_top_up(parent=parent, counts=counts):
        counts[JobState.PENDING.value] = counts.get(JobState.PENDING, 0) + made
        parent.array_made += made
    if counts != parent.array_counts:
        Job.objects.filter(pk=array_id).update(array_counts=counts)
    state = array_state(counts=counts, parent=parent)
    if state == parent.state or parent.state in FINAL:
        return
    now = timezone.now()
    values: dict[str, object] = {"state": state}
    if parent.started_at is None and state != JobState.PENDING:
        values["started_at"] = now
    if state in FINAL:
        values["ended_at"] = now
    if Job.objects.filter(pk=array_id, state=parent.state).update(**values) and state in FINAL:
        from portal.jobs.services.changes import dependants_settle

        event_record(job_id=array_id, kind=state.lower(), text=f"All tasks ended: {counts_in_words(counts)}.")
        dependants_settle(job_id=array_id, ok=state == JobState.COMPLETED)


def _counts_after(parent: Job, moved: Mapping[str, int]) -> dict[str, int] | None:
    """Return the stored counts with `moved` in them; None when that cannot be, and only a recount helps.

    The parent's row lock makes each move counted once: whoever moves a task adds it here before it commits.
    """
    counts = {str(state): n for state, n in parent.array_counts.items()}
    for state, n in moved.items():
        counts[str(state)] = counts.get(str(state), 0) + n
    if any(n < 0 for n in counts.values()) or sum(counts.values()) != parent.array_made:
        return None
    return {state: n for state, n in counts.items() if n}


def array_state(*, counts: Mapping[str, int], parent: Job) -> JobState:
    """Say what an array is as a whole: live while a task is, and at the end the worst of its tasks' ends."""
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
