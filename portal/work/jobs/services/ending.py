"""The end of an attempt, exactly once; then its job ends, or waits again while retries or requeues are left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.models import F

from portal.foundation.events.services import page_event
from portal.work.jobs.models import Allocation, Attempt, GpuAllocation, Job
from portal.work.jobs.services.changes import job_move
from portal.work.jobs.services.preempting import use_count
from portal.work.jobs.services.profiling import profile_close
from portal.work.jobs.sharing import apart_note
from portal.work.jobs.states import FOLLOWERS, LIVE, QUEUED, AttemptState, JobState, StopCause, StopReason, end_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

A = AttemptState
NEVER_RAN = frozenset({"tenant_not_trusted"})
"""Ends reported by the agent before any of the job's own code ran."""
_MEMORY = frozenset({"out_of_memory", "gpu_memory_limit"})
_LOST = frozenset({"lost", "lease", "tenant_not_trusted"})
LEAVING = "allocation"
"""The check by which an agent closes its node when its allocation ends (`workers.agent.leaving`)."""
_STOPPED = {
    StopReason.CANCEL: A.CANCELLED,
    StopReason.PREEMPT: A.PREEMPTED,
    StopReason.REQUEUE: A.PREEMPTED,
    StopReason.LIMIT: A.TIMEOUT,
    StopReason.IDLE: A.TIMEOUT,
}


def attempt_end_state(*, parts: Iterable[tuple[str, int | None]], stop_reason: str) -> AttemptState:
    """Return how an attempt ended. `parts`: (reason, exit code) of each; `stop_reason`: why it was stopped, or "".

    A part that ended by itself outweighs one that was stopped; memory, time and disk outweigh a plain failure.
    """
    ends = list(parts)
    reasons = {reason for reason, _ in ends}
    if reasons & _MEMORY:
        return A.OUT_OF_MEMORY
    if "time_limit" in reasons:
        return A.TIMEOUT
    if "disk_limit" in reasons:
        return A.FAILED
    if reasons & _LOST:
        return A.CANCELLED if stop_reason == StopReason.CANCEL else A.NODE_FAIL
    if all(reason == "exit" and code == 0 for reason, code in ends):
        return A.COMPLETED
    if "stopped" in reasons and stop_reason in _STOPPED:
        return _STOPPED[StopReason(stop_reason)]
    failed_by_itself = any(reason == "start_failed" or (reason == "exit" and code != 0) for reason, code in ends)
    if stop_reason == StopReason.UNWELL or ("stopped" in reasons and not failed_by_itself):
        # Its GPU or node had failed before it did; or nobody asked for it: its node was shut down (`./berth down`).
        return A.NODE_FAIL
    return A.FAILED


def attempt_settle(*, attempt: Attempt, at: datetime) -> None:
    """End an attempt whose last part has ended. The caller holds its row's lock; a second call changes nothing."""
    ends = list(attempt.allocations.order_by("released_at", "rank"))
    parts = [(part.end_reason, part.exit_code) for part in ends]
    fresh = Attempt.objects.get(pk=attempt.pk)
    stop_reason = fresh.stop_reason or (StopReason.REQUEUE if _left_with_node(fresh) else "")
    state = attempt_end_state(parts=parts, stop_reason=stop_reason)
    ended = Attempt.objects.filter(pk=attempt.pk, ended_at=None).update(
        state=state, ended_at=max(at, fresh.started_at or fresh.created_at), **_end_of(ends, state)
    )
    if not ended:
        return
    fresh.refresh_from_db(fields=["state", "exit_code", "signal", "ended_at"])
    if fresh.is_profile:
        profile_close(attempt=fresh)
        return
    use_count(attempt=fresh)
    job = Job.objects.get(pk=attempt.job_id)
    _job_follow(job=job, attempt=fresh, state=state, never_ran=any(reason in NEVER_RAN for reason, _ in parts))
    _checkpoint_remember(job=job, attempt=fresh)
    page_event(stream=f"job:{job.pk}", topic="log", id=job.pk)


def _left_with_node(attempt: Attempt) -> bool:
    """Say whether it was stopped because its node leaves with its allocation: it waits again, and no requeue is counted."""
    if not attempt.job.is_requeueable:
        return False
    return attempt.allocations.filter(end_reason="stopped", node__drained_by_check=LEAVING).exists()


def _end_of(ends: list[Allocation], state: AttemptState) -> dict[str, int | None]:
    """Return the exit code or the signal of the first part that did not end well, and rather not of one that was stopped."""
    if state == A.COMPLETED:
        return {"exit_code": 0, "signal": None}
    told = [part for part in ends if part.exit_code or part.signal]
    first = min(told, key=lambda part: part.end_reason == "stopped", default=None)
    return {"exit_code": first and first.exit_code, "signal": first and first.signal}


def ended_unheard(*, part: Allocation, report: Mapping[str, Any]) -> bool:
    """Say whether a part that was lost had ended well, by a report that comes only now."""
    well = report["state"] == "ended" and (report.get("reason") or "exit") == "exit" and report.get("exit_code") == 0
    return well and part.end_reason == "lost"


def loss_make_good(*, attempt: Attempt, part: Allocation) -> bool:
    """End the job of a lost attempt that had ended well, which its node can tell only now; return whether it ended so.

    Only while the job waits and nothing of it has begun anew: it is not run again then. The attempt's own end stays. Where
    another part was lost too, or did not end well, the job runs again. An end by itself outweighs a stop that was asked for,
    as ever. The caller holds the road.
    """
    job = Job.objects.get(pk=attempt.job_id)
    begun = job.epoch != attempt.epoch or Attempt.objects.live().filter(job=job).exists()
    others = attempt.allocations.exclude(pk=part.pk).exclude(end_reason="exit", exit_code=0)
    if attempt.is_profile or begun or others.exists():
        return False
    return job_move(
        job_id=job.pk,
        to=JobState.COMPLETED,
        only_from=QUEUED,
        text=f"Attempt {attempt.epoch} had ended well before its node could tell: the job is not run again.",
        exit_code=0,
        signal=None,
        end_detail="",
    )


def _checkpoint_remember(*, job: Job, attempt: Attempt) -> None:
    """Remember whose storage holds the checkpoint: a resumed attempt may only go where it can be read."""
    if not job.checkpointable or attempt.started_at is None:
        return
    first = Allocation.objects.filter(attempt=attempt, rank=0).select_related("node").first()
    if first is not None:
        Job.objects.filter(pk=job.pk).update(checkpoint_domain=first.node.storage_domain)


def _job_follow(*, job: Job, attempt: Attempt, state: AttemptState, never_ran: bool) -> None:
    """Move the job after its attempt's end."""
    own = "" if state in _STOPPED.values() else end_words(attempt.exit_code, attempt.signal)
    detail = (attempt.end_detail or own).removesuffix(".")  # it stands within sentences
    if state != A.COMPLETED and job.cancel_requested_at:
        state = A.CANCELLED
    again = _again(job=job, state=state, never_ran=never_ran)
    if state == A.OUT_OF_MEMORY and _was_given_too_little(job, attempt):
        Job.objects.filter(pk=job.pk).update(gpu_memory_whole=True)
        apart_note(job=job, attempt=attempt)
        again = "preemptions", ", from now on with all the GPU memory that it asks for"
    if again is None:
        _job_end(job=job, attempt=attempt, state=state, detail=detail)
    else:
        _job_wait_again(job=job, attempt=attempt, state=state, detail=detail, again=again)


def _was_given_too_little(job: Job, attempt: Attempt) -> bool:
    """Say whether it was ended for GPU memory that it asked for and was not granted: Berth's guess, so it costs no retry."""
    if not job.is_requeueable or job.gpu_memory_mib is None:
        return False
    parts = GpuAllocation.objects.filter(allocation__attempt=attempt, allocation__end_reason="gpu_memory_limit")
    return parts.filter(memory_mib__lt=job.gpu_memory_mib).exists()


def _job_end(*, job: Job, attempt: Attempt, state: AttemptState, detail: str) -> None:
    if job.state == JobState.STARTING and JobState(state) not in FOLLOWERS[JobState.STARTING]:
        # It ran: the report of its start was overtaken by that of its end, or its agent was away.
        job_move(
            job_id=job.pk, to=JobState.RUNNING, kind="started", text="It ran before its node could report the start."
        )
    job_move(
        job_id=job.pk,
        to=JobState(state),
        only_from=LIVE,
        text=f"{_ended_words(attempt, state, detail)}.",
        exit_code=attempt.exit_code,
        signal=attempt.signal,
        end_detail=detail[:300],
    )


def _job_wait_again(*, job: Job, attempt: Attempt, state: AttemptState, detail: str, again: tuple[str, str]) -> None:
    """Put the job back into the queue. `again`: the job's counter that goes up, and words for the tries left of it."""
    counter, left = again
    # A planner's stop has named its reason already, when it was ordered.
    ended = _ended_words(attempt, state, "" if state == A.PREEMPTED and attempt.stop_reason else detail)
    text = f"{ended}; waits again{left}."
    called_back = state == A.PREEMPTED and attempt.stop_cause == StopCause.CALL_BACK
    if state == A.PREEMPTED and job.state == JobState.RUNNING:
        job_move(job_id=job.pk, to=JobState.PREEMPTED, text=f"{ended}.", end_detail=detail[:300])
        text = f"Waits again{left}."
    job_move(
        job_id=job.pk,
        to=JobState.PENDING,
        text=text,
        kind="requeued",
        end_detail=detail[:300],
        reason="not-planned-yet",
        called_back_epoch=attempt.epoch if called_back else job.called_back_epoch,
        **{counter: F(counter) + 1},
    )
    held_by = Job.objects.filter(pk=job.array_id, state=JobState.HELD).values_list("held_by", flat=True).first()
    if held_by is not None:  # a task waits again while its array is held
        text = f"Held with its array by {held_by}."
        job_move(job_id=job.pk, to=JobState.HELD, text=text, held_by=held_by, reason="held")


def _ended_words(attempt: Attempt, state: AttemptState, detail: str) -> str:
    words = [] if attempt.stop_reason == StopReason.IDLE and detail else [state.label.lower()]  # it tells all itself
    return f"Attempt {attempt.epoch} ended: {', '.join([*words, *filter(None, [detail])])}"


def _again(*, job: Job, state: AttemptState, never_ran: bool) -> tuple[str, str] | None:
    """Return the counter that another attempt goes into, and words for how many are left. None: the job is over."""
    if state in {A.FAILED, A.OUT_OF_MEMORY} and job.failures < job.retries:
        return "failures", f" (retry {job.failures + 1} of {job.retries})"
    if state == A.NODE_FAIL and (job.is_requeueable or never_ran) and job.requeues < job.max_requeues:
        return "requeues", f" (requeue {job.requeues + 1} of {job.max_requeues})"
    if state == A.PREEMPTED:
        return "preemptions", ""
    return None
