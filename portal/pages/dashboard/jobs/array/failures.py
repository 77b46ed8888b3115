"""An array's failures: by state, with exit codes, some tasks, the last error line, and the remedy."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from django.db.models import Count, Min
from django.urls import reverse

from portal.pages.dashboard.jobs.remedies import remedy_for
from portal.work.jobs.log_reading import last_line
from portal.work.jobs.states import RETRIED, JobState, end_words

if TYPE_CHECKING:
    from portal.pages.dashboard.jobs.array.context import FailureGroup
    from portal.work.jobs.models import Job

NAMED = 6
"""Tasks of a group that are named; the list below holds them all."""
CODES = 3


def failures_make(job: Job) -> list[FailureGroup]:
    """Group the failed tasks by state, the largest group first. At most four groups, so as many queries."""
    failed = job.tasks.filter(state__in=RETRIED, retry_asked_at=None)
    rows = failed.order_by().values("state", "exit_code", "signal").annotate(n=Count("pk"), first=Min("array_index"))
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[row["state"]].append(row)
    made = [_group(job, state, sorted(codes, key=lambda row: -row["n"])) for state, codes in groups.items()]
    return sorted(made, key=lambda group: -group["count"])


def _group(job: Job, state: str, codes: list[dict[str, Any]]) -> FailureGroup:
    count = sum(row["n"] for row in codes)
    shown = job.tasks.filter(state=state, retry_asked_at=None).order_by("array_index")[:NAMED]
    example = job.tasks.get(array_index=codes[0]["first"])
    return {
        "state": state,
        "label": JobState(state).label,
        "count": count,
        "tasks": [{"index": task.array_index, "url": reverse("job-detail", args=[task.number])} for task in shown],
        "more": max(0, count - NAMED),
        "codes": _codes(codes),
        "example": {"index": example.array_index, "url": reverse("job-detail", args=[example.number])},
        "line": last_line(job=example),
        "detail": example.end_detail or None,
        "remedy": remedy_for(example),
        "can_retry": not job.cancel_requested_at,
    }


def _codes(codes: list[dict[str, Any]]) -> str | None:
    """Say how often each end came: "exit 1 (5), signal 9 (2), 3 other codes"; None without any."""
    known = [(told, row["n"]) for row in codes if (told := end_words(row["exit_code"], row["signal"]))]
    words = [f"{told} ({n})" for told, n in known[:CODES]]
    others = len(known) - CODES
    if others > 0:
        words.append(f"{others} other code{'s' if others > 1 else ''}")
    return ", ".join(words) or None
