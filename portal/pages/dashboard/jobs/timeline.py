"""A job's life as spans on one axis: waiting, held, starting, running with its GPUs as height; and its profiles."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.urls import reverse
from django.utils import timezone

from portal.planning.estimation.selectors import profiles_found
from portal.work.jobs.services.preempting import stop_words
from portal.work.jobs.states import FINAL, JobState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from portal.planning.estimation.selectors import Found
    from portal.work.jobs.models import Attempt, Job

PATTERNS: Mapping[str, str] = {
    "OVERLAPPED": "loads data during the backward pass",
    "SEQUENTIAL": "loads data before it computes",
    "INFERENCE": "only infers",
}


def profiles_make(profiles: Sequence[Attempt]) -> list[dict[str, Any]]:
    """`profiles` as `profiles_of` reads them, the last one first."""
    known = profiles_found((each.profile_of, each.profile_type_id) for each in profiles)
    return [_row(each, known.get((each.profile_of, each.profile_type_id))) for each in profiles]


def _row(attempt: Attempt, found: Found | None) -> dict[str, Any]:
    speed = getattr(attempt, "speed", None)
    end = attempt.ended_at or timezone.now()
    return {
        "state": attempt.state,
        "gpu_type": str(attempt.profile_type or ""),
        "where": _where(attempt),
        "started_at": attempt.started_at.isoformat() if attempt.started_at else None,
        "run_s": (end - attempt.started_at).total_seconds() if attempt.started_at else None,
        "iterations": speed.iterations if speed else 0,
        "samples_per_s": speed.samples_per_s if speed else None,
        "cause": attempt_cause(attempt),
        "log_url": _log_url(attempt),
        "found": _words(found) if found and speed else [],
    }


def _where(attempt: Attempt) -> str:
    return ", ".join(part.node.name for part in attempt.allocations.all())


def _log_url(attempt: Attempt) -> str | None:
    if not attempt.log_chunks.exists():
        return None
    return f"{reverse('job-log-download', args=[attempt.job.number])}?profile={attempt.epoch}"


def _words(found: Found) -> list[str]:
    times = (
        ("data", found.data_s),
        ("forward", found.forward_s),
        ("backward", found.backward_s),
        ("update", found.update_s),
    )
    words = [f"{name} {_milliseconds(seconds)}" for name, seconds in times if seconds is not None]
    return [*words, PATTERNS[found.pattern.name]] if found.pattern else words


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def profile_spans(profiles: Sequence[Attempt]) -> list[dict[str, Any]]:
    """Return the profiles as low bars over the waiting."""
    return [
        {
            "kind": "profiling",
            "from_at": each.created_at.isoformat(),
            "to_at": each.ended_at.isoformat() if each.ended_at else None,
            "gpus": 0,
            "label": "profile",
            "caption": f"{each.profile_type or ''}, {_where(each)}",
        }
        for each in reversed(profiles)
    ]


def attempt_cause(attempt: Attempt) -> str | None:
    """Return why an attempt ended, in words: a planning's stop with its cause, else what its node said."""
    if not attempt.stop_cause:
        return attempt.end_detail or None
    return stop_words(attempt=attempt, cause=attempt.stop_cause, wanted=attempt.stop_for, to_gpus=attempt.stop_to_gpus)


MARGIN = 0.02


def timeline_range(*, job: Job) -> tuple[datetime, datetime]:
    """Return the axis that the timeline and the job's plots share: from submit to the end or now, and a small margin."""
    end = job.ended_at or timezone.now()
    length = max(end - job.submitted_at, timedelta(seconds=10))
    return job.submitted_at - length * MARGIN, job.submitted_at + length * (1 + MARGIN)


def timeline_make(*, job: Job, attempts: Sequence[Attempt], profiles: Sequence[Attempt] = ()) -> dict[str, Any] | None:
    if job.array_size:
        return None
    now = timezone.now()
    spans: list[dict[str, Any]] = []
    since = job.submitted_at
    for attempt in sorted(attempts, key=lambda a: a.epoch):
        spans += _waiting(job, since, attempt.created_at)
        spans += _attempt_spans(attempt, now)
        since = attempt.ended_at or now
    if job.state not in FINAL and (not attempts or attempts[0].ended_at):
        spans += _waiting(job, since, None)
    elif not attempts and job.ended_at:
        spans += _waiting(job, since, job.ended_at)
    spans += profile_spans(profiles)
    start, end = timeline_range(job=job)
    return {
        "start": start.isoformat(),
        "end": end.isoformat(),
        "now": None if job.state in FINAL else now.isoformat(),
        "spans": spans,
    }


def _waiting(job: Job, start: datetime, end: datetime | None) -> list[dict[str, Any]]:
    """Return a wait, cut where the job was held."""
    spans: list[dict[str, Any]] = []
    events = job.events.filter(kind__in=["held", "released"], at__gte=start).order_by("at")
    if end is not None:
        events = events.filter(at__lte=end)
    kind: str = "waiting"
    since = start
    for event in events:
        spans.append(_span(kind, since, event.at, 0))
        kind, since = ("held" if event.kind == "held" else "waiting"), event.at
    held = end is None and job.state == JobState.HELD
    spans.append(_span("held" if held else kind, since, end, 0))
    return spans


def _attempt_spans(attempt: Attempt, now: datetime) -> list[dict[str, Any]]:
    nodes = ", ".join(part.node.name for part in attempt.allocations.all())
    begun = attempt.started_at or attempt.ended_at or now
    spans = [_span("starting", attempt.created_at, begun, attempt.gpus)]
    if attempt.started_at:
        caption = f"run {attempt.epoch}, {nodes}" if attempt.epoch > 1 else nodes
        label = f"{attempt.gpus} GPU{'s' if attempt.gpus != 1 else ''}" if attempt.gpus else "CPU"
        spans.append(_span("running", attempt.started_at, attempt.ended_at, attempt.gpus, label, caption))
    return spans


def _span(
    kind: str, start: datetime, end: datetime | None, gpus: int, label: str = "", caption: str | None = None
) -> dict[str, Any]:
    return {
        "kind": kind,
        "from_at": start.isoformat(),
        "to_at": end.isoformat() if end else None,  # None: still going
        "gpus": gpus,  # the bar's height
        "label": label or {"waiting": "waiting", "held": "held"}.get(kind, ""),
        "caption": caption,
    }
