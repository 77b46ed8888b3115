"""The only way in which a job changes its state: a conditional UPDATE, an event, news for pages, its array's counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from portal.foundation.events.followers import job_moved
from portal.foundation.events.services import page_event, plan_nudge
from portal.work.jobs.models import Job, JobDependency
from portal.work.jobs.services.arrays import (
    array_state,
    array_top_up,
    counts_after,
    counts_in_words,
    retries_open,
    state_counts,
)
from portal.work.jobs.services.events import event_record
from portal.work.jobs.services.waiting import promises_withdraw
from portal.work.jobs.states import FINAL, FOLLOWERS, QUEUED, JobState

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

    from portal.people.tenants.models import User


def job_move(
    *,
    job_id: int,
    to: JobState,
    text: str,
    kind: str = "",
    actor: User | None = None,
    only_from: Collection[JobState] | None = None,
    **fields: Any,
) -> bool:
    """Move a job to `to` if its present state allows it (and is in `only_from`, if given); return whether it moved.

    A move for another reason than the end of its attempt names `only_from`: a live attempt's job would
    otherwise be put back in the queue, or ended, while its processes run.
    """
    sources = [
        state for state, followers in FOLLOWERS.items() if to in followers and (only_from is None or state in only_from)
    ]
    job = Job.objects.filter(pk=job_id, state__in=sources).values("state", "waiting_since", "array_id", "epoch").first()
    if job is None:
        return False
    now = timezone.now()
    values = {"state": to, **fields, **_clock_values(to=to, waiting_since=job["waiting_since"], now=now)}
    if not Job.objects.filter(pk=job_id, state=job["state"]).update(**values):
        return False
    event_record(job_id=job_id, kind=kind or to.lower(), text=text, epoch=job["epoch"] or None, actor=actor, at=now)
    _others_follow(job_id=job_id, array_id=job["array_id"], before=job["state"], to=to)
    job_moved(job_id=job_id, to=to, epoch=job["epoch"])
    return True


def _clock_values(*, to: JobState, waiting_since: datetime | None, now: datetime) -> dict[str, Any]:
    """Return the fields that a move to `to` closes: the waiting stretch, and at an end the job's time and its reason to wait.

    The next planning that finds the job eligible opens a new stretch (a fresh submit opens it itself), so a job's latency
    ratio counts eligible waiting only.
    """
    values: dict[str, Any] = {}
    if waiting_since and to != JobState.PENDING:
        values |= {"waited_s": F("waited_s") + max(0.0, (now - waiting_since).total_seconds()), "waiting_since": None}
    if to in FINAL:
        values |= {"ended_at": now, "reason": "", "reason_figures": {}}
    return values


def _others_follow(*, job_id: int, array_id: int | None, before: str, to: JobState) -> None:
    """Do what a job's move means for others: GPUs kept for it, pages, jobs that wait for it, and its array."""
    if to in FINAL or to == JobState.HELD:
        promises_withdraw(job_ids=[job_id])
    _tell(job_id=job_id, array_id=array_id)
    if to in FINAL:
        dependants_settle(job_id=job_id, ok=to == JobState.COMPLETED)
    if array_id:
        array_refresh(array_id=array_id, moved={before: -1, to.value: 1})


def _tell(*, job_id: int, array_id: int | None) -> None:
    page_event(stream="cluster", topic="job")
    page_event(stream=f"job:{job_id}", topic="job", id=job_id)
    if array_id:
        page_event(stream=f"job:{array_id}", topic="job", id=array_id)
    plan_nudge()


def never_completed(job_id: int) -> str:
    """Return `end_detail` for a job that was cancelled because it waited for job `job_id`."""
    return f"job {job_id} did not complete"


def dependants_settle(*, job_id: int, ok: bool) -> None:
    """Cancel the jobs that can no longer start after this end: they waited for the other one. The others become eligible."""
    kind, word, detail = (
        (JobDependency.Kind.NOT_OK, "fail, which completed", f"job {job_id} completed")
        if ok
        else (JobDependency.Kind.OK, "complete, which did not", never_completed(job_id))
    )
    stuck = JobDependency.objects.filter(on_id=job_id, kind=kind, job__state__in=QUEUED)
    for dependant_id in stuck.values_list("job_id", flat=True):
        tasks = Job.objects.filter(array=dependant_id, state__in=QUEUED).values_list("pk", flat=True)
        for stuck_id in [dependant_id, *tasks]:
            job_move(
                job_id=stuck_id,
                to=JobState.CANCELLED,
                text=f"Cancelled: it waited for job {job_id} to {word}.",
                only_from=QUEUED,
                end_detail=detail,
            )


@transaction.atomic
def array_refresh(*, array_id: int, moved: Mapping[str, int] | None = None) -> None:
    """Update an array's counts, make the tasks that are due, and move the parent when its state follows from them.

    `moved` is how many tasks the caller's transaction took out of a state (below 0) or into one, and costs the same
    however many tasks there are; None recounts them all, as the reconciler does.
    """
    parent = Job.objects.select_for_update(no_key=True).get(pk=array_id)
    counts = counts_after(parent, moved) if moved else None
    if counts is None:
        counts = state_counts(array_id=array_id)
    if parent.array_retries:
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
    moved_now = Job.objects.filter(pk=array_id, state=parent.state).update(**values)
    if moved_now:
        job_moved(job_id=array_id, to=state, epoch=parent.epoch)
    if moved_now and state in FINAL:
        event_record(job_id=array_id, kind=state.lower(), text=f"All tasks ended: {counts_in_words(counts)}.")
        dependants_settle(job_id=array_id, ok=state == JobState.COMPLETED)
