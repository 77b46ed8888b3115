"""The rows of the job list: a line for a job or a folded array, and the actions on it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from django.db.models import F, Prefetch
from django.urls import reverse
from django.utils import timezone

from portal.pages.dashboard.parts.expected import ends_make, starts_make
from portal.pages.dashboard.parts.plain import sizes
from portal.planning.estimation.selectors import length_is_told, progress_fractions
from portal.planning.rounds.read.cores import cores_wanted_of
from portal.planning.rounds.read.ends import expected_end, ran_s
from portal.planning.rounds.read.forecasts import starts_of
from portal.planning.rounds.read.selectors import latency_ratio, waited_s
from portal.work.jobs.models import Allocation, Attempt, Job
from portal.work.jobs.states import FINAL, LIVE, QUEUED, RETRIED, JobState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from portal.pages.dashboard.parts.context import Rich, StartsContext
    from portal.planning.rounds.read.forecasts import Start

S = JobState
SEGMENTS: dict[str, tuple[JobState, ...]] = {
    "run": (S.RUNNING, S.STARTING),
    "done": (S.COMPLETED,),
    "wait": (S.PENDING, S.PREEMPTED),
    "fail": (S.FAILED, S.OUT_OF_MEMORY, S.TIMEOUT, S.NODE_FAIL),
    "stop": (S.HELD, S.CANCELLED),
}
WORDS = {"done": "done", "run": "run", "wait": "wait", "fail": "failed", "stop": "stopped"}


class JobRow(TypedDict):
    """A line of the list."""

    id: int | str
    url: str
    name: str
    state: str
    tenant: str
    owner: str
    gpus: Rich  # "4 or 8", "CPU", or what it holds, bold
    cores: int
    where: str | None  # nodes, when it has any
    reason: str | None
    detail: str | None  # "by ines.m", "exit 1"
    waited_s: float | None
    ran_s: float | None  # over all its runs
    lr: float | None
    progress_percent: float | None  # reported by the job itself
    started_at: str | None
    ended_at: str | None
    starts: StartsContext | None  # of a waiting job: the start range, where there is one
    ends: dict[str, Any] | None  # the expected end of one that has not ended
    category: str
    labels: str  # "run=7, team"
    priority: int
    submitted_at: str
    array: dict[str, Any] | None
    actions: list[str]  # those that apply, for the bulk bar
    task: NotRequired[bool]  # a row inside an opened array


def rows_of(jobs: Sequence[Job], *, task: bool = False) -> list[JobRow]:
    """Turn jobs into rows; their last attempts, nodes and start ranges come in three more queries."""
    allocations = Prefetch("allocations", Allocation.objects.select_related("node").order_by("rank"))
    attempts = Attempt.objects.runs().filter(job__in=jobs, epoch=F("job__epoch")).prefetch_related(allocations)
    last = {attempt.job_id: attempt for attempt in attempts}
    wanted, done = cores_wanted_of(jobs), progress_fractions(jobs)
    now = timezone.now()
    starts = starts_of(jobs, now)
    rows = [_row(job, last.get(job.pk), cores=wanted[job.pk], task=task) for job in jobs]
    for row, job in zip(rows, jobs, strict=True):
        row["progress_percent"] = 100 * done[job.pk] if job.pk in done else None
        if attempt := last.get(job.pk) if job.state in LIVE else None:
            row["ran_s"] = ran_s(job, attempt, now)
        row["starts"], row["ends"] = _foretold(job, last.get(job.pk), starts.get(job.pk), done.get(job.pk), now)
    return rows


def _foretold(
    job: Job, attempt: Attempt | None, start: Start | None, fraction: float | None, now: datetime
) -> tuple[StartsContext | None, dict[str, Any] | None]:
    """Return when a job probably starts and ends: only what is computed."""
    if job.state in LIVE and attempt is not None and not job.array_size:
        return None, ends_make(expected_end(job, attempt, fraction, now))
    known = job.age_s and length_is_told(job.age_source)
    runs_s = min(filter(None, (job.age_s, job.time_limit_s)), default=None) if known else None
    if start is None or start.passed or start.latest_at is None or runs_s is None:
        return starts_make(start), None
    rest = timedelta(seconds=runs_s)
    return starts_make(start), {
        "earliest": (start.earliest_at + rest).isoformat(),
        "latest": (start.latest_at + rest).isoformat(),
    }


def _row(job: Job, attempt: Attempt | None, *, cores: int, task: bool) -> JobRow:
    live = job.state in LIVE
    where = ", ".join(part.node.name for part in attempt.allocations.all()) if attempt and live else None
    priority: list[str] = ["priority"] if job.state in QUEUED or (job.array_size and job.state not in FINAL) else []
    row: JobRow = {
        "id": job.number,
        "url": reverse("job-detail", args=[job.number]),
        "name": job.name,
        "state": job.state,
        "tenant": job.tenant.name,
        "owner": job.owner.username,
        "gpus": gpus_words(job, attempt),
        "cores": attempt.cores if attempt and not job.array_size else cores,
        "where": where,
        "reason": job.reason or None if job.state in {S.PENDING, S.HELD} and not job.array_size else None,
        "detail": _detail(job),
        "waited_s": waited_s(job) if not job.array_size else None,
        "ran_s": job.ran_s if job.started_at and not job.array_size else None,
        "lr": latency_ratio(job),
        "progress_percent": None,
        "started_at": job.started_at.isoformat() if job.started_at else None,
        "ended_at": job.ended_at.isoformat() if job.ended_at else None,
        "starts": None,
        "ends": None,
        "category": job.category or "",
        "labels": ", ".join(f"{name}={value}" if value else name for name, value in job.labels.items()),
        "priority": job.priority,
        "submitted_at": job.submitted_at.isoformat(),
        "array": array_summary(job) if job.array_size else None,
        "actions": [*actions_of(job), *priority],
    }
    if task:
        row["task"] = True
    return row


def _detail(job: Job) -> str | None:
    if job.state == S.HELD and job.held_by:
        return f"by {job.held_by}"
    if job.state == S.FAILED and job.exit_code is not None and job.signal is None:
        return f"exit code {job.exit_code}"
    if job.state in FINAL and job.state != S.COMPLETED:
        return job.end_detail or None
    return None


def gpus_words(job: Job, attempt: Attempt | None) -> Rich:
    if job.gpus == [0]:
        return "CPU"
    if attempt is None or job.state not in LIVE | FINAL:
        return sizes(job.gpus)
    return [{"text": str(attempt.gpus), "bold": True}] if job.state in LIVE else str(attempt.gpus)


def actions_of(job: Job) -> list[str]:
    """Return the actions that a job allows now."""
    retry: list[str] = ["retry"] if failed_count(job) else []
    if job.state in FINAL:
        return retry
    verbs: list[str] = ["cancel", *retry]
    if job.state == S.PENDING or (job.array_size and job.state == S.RUNNING):
        verbs.append("hold")
    if job.state == S.HELD:
        verbs.append("release")
    if job.state in LIVE and job.is_requeueable and not job.array_size:
        verbs.append("requeue")
    return verbs


def failed_count(job: Job) -> int:
    """Return how many jobs a retry would let wait again: 1 for a failed job, for an array its failed tasks."""
    if job.array_size is None:
        return int(job.state in RETRIED and job.retry_asked_at is None)
    if job.cancel_requested_at:
        return 0
    return max(0, sum(job.array_counts.get(state, 0) for state in RETRIED) - job.array_retries)


def array_summary(job: Job) -> dict[str, Any]:
    counts: Mapping[str, int] = job.array_counts
    sums = {token: sum(counts.get(state, 0) for state in states) for token, states in SEGMENTS.items()}
    sums["wait"] += job.array_size - job.array_made + job.array_retries
    sums["fail"] = max(0, sums["fail"] - job.array_retries)
    order: tuple[str, ...] = ("done", "run", "wait", "fail", "stop")
    return {
        "range": f"[0-{job.array_size - 1}]",
        "words": ", ".join(f"{sums[token]} {WORDS[token]}" for token in order if sums[token]),
        "segments": [{"token": token, "count": sums[token]} for token in order if sums[token]],
        "tasks_url": reverse("job-tasks", args=[job.number]),
    }
