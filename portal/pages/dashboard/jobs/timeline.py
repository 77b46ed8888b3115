"""A job's life as spans on one axis: waiting, held, starting, running, with the number of GPUs as height."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from django.utils import timezone

from portal.pages.dashboard.jobs.profiles import profile_spans
from portal.work.jobs.states import FINAL, JobState

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from portal.pages.dashboard.jobs.context import Span, SpanKind, TimelineContext
    from portal.work.jobs.models import Attempt, Job

MARGIN = 0.02


def timeline_range(*, job: Job) -> tuple[datetime, datetime]:
    """Return the axis that the timeline and the job's plots share: from submit to the end or now, and a small margin."""
    end = job.ended_at or timezone.now()
    length = max(end - job.submitted_at, timedelta(seconds=10))
    return job.submitted_at - length * MARGIN, job.submitted_at + length * (1 + MARGIN)


def timeline_make(*, job: Job, attempts: Sequence[Attempt], profiles: Sequence[Attempt] = ()) -> TimelineContext | None:
    if job.array_size:
        return None
    now = timezone.now()
    spans: list[Span] = []
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


def _waiting(job: Job, start: datetime, end: datetime | None) -> list[Span]:
    """Return a wait, cut where the job was held."""
    spans: list[Span] = []
    events = job.events.filter(kind__in=["held", "released"], at__gte=start).order_by("at")
    if end is not None:
        events = events.filter(at__lte=end)
    kind: SpanKind = "waiting"
    since = start
    for event in events:
        spans.append(_span(kind, since, event.at, 0))
        kind, since = ("held" if event.kind == "held" else "waiting"), event.at
    held = end is None and job.state == JobState.HELD
    spans.append(_span("held" if held else kind, since, end, 0))
    return spans


def _attempt_spans(attempt: Attempt, now: datetime) -> list[Span]:
    nodes = ", ".join(part.node.name for part in attempt.allocations.all())
    begun = attempt.started_at or attempt.ended_at or now
    spans = [_span("starting", attempt.created_at, begun, attempt.gpus)]
    if attempt.started_at:
        caption = f"attempt {attempt.epoch}, {nodes}"
        label = f"{attempt.gpus} GPU{'s' if attempt.gpus != 1 else ''}" if attempt.gpus else "CPU"
        spans.append(_span("running", attempt.started_at, attempt.ended_at, attempt.gpus, label, caption))
    return spans


def _span(
    kind: SpanKind, start: datetime, end: datetime | None, gpus: int, label: str = "", caption: str | None = None
) -> Span:
    return {
        "kind": kind,
        "from_at": start.isoformat(),
        "to_at": end.isoformat() if end else None,
        "gpus": gpus,
        "label": label or {"waiting": "waiting", "held": "held"}.get(kind, ""),
        "caption": caption,
    }
