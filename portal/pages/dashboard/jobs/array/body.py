"""How far an array is: its bar, a grid of its tasks, and its failures with remedies."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from django.db.models import Count, F, IntegerField, Min
from django.db.models.expressions import CombinedExpression, Value
from django.urls import reverse

from portal.pages.dashboard.jobs.ended import remedy_for
from portal.pages.dashboard.jobs.rows import SEGMENTS
from portal.work.jobs.log_reading import last_line
from portal.work.jobs.states import RETRIED, JobState, end_words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from portal.work.jobs.models import Job

CELLS = 1000
ROW_CELLS = 40
WORST = ("fail", "run", "stop", "wait", "done")
"""The order of states: neighbours that share a cell show the first one that any of them has."""
WORDS = {"fail": "failed", "run": "running", "wait": "waiting", "done": "completed", "stop": "held or cancelled"}
_TOKEN = {state: token for token, states in SEGMENTS.items() for state in states}


def grid_make(job: Job) -> dict[str, Any]:
    """Return the rows of cells. `step`: tasks a cell; `again`: some cell shows an attempt."""
    step = -(-job.array_size // CELLS)
    cells = _single(job) if step == 1 else _folded(job, step)
    rows: list[dict[str, Any]] = [
        {"first": start * step, "cells": cells[start : start + ROW_CELLS]} for start in range(0, len(cells), ROW_CELLS)
    ]
    return {"rows": rows, "step": step, "again": any(cell["attempt"] for cell in cells)}


def _single(job: Job) -> list[dict[str, Any]]:
    """Return a cell for each task; one that is not made yet has no `url`: it waits, or never ran in a cancelled array."""
    found = {
        index: (state, epoch, asked)
        for index, state, epoch, asked in job.tasks.values_list("array_index", "state", "epoch", "retry_asked_at")
    }
    missing = JobState.CANCELLED if job.cancel_requested_at else JobState.PENDING
    cells: list[dict[str, Any]] = []
    for index in range(job.array_size):
        state, epoch, asked = found.get(index, (missing, 0, None))
        token = "wait" if asked else _TOKEN[JobState(state)]
        word = "to be retried" if asked else JobState(state).label.lower()
        attempt = epoch if epoch > 1 else None
        title = f"task {index}, {word}" + (f", attempt {epoch}" if attempt else "")
        url = reverse("job-detail", args=[f"{job.pk}_{index}"]) if index in found else None
        cells.append({"url": url, "token": token, "title": title, "attempt": attempt})
    return cells


def _folded(job: Job, step: int) -> list[dict[str, Any]]:
    """Return a cell for each `step` neighbours: the worst of their states, and how many are in each."""
    cell = CombinedExpression(F("array_index"), "/", Value(step), output_field=IntegerField())
    rows = job.tasks.order_by().annotate(cell=cell).values_list("cell", "state").annotate(n=Count("pk"))
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    for place, state, n in rows:
        counts[place][_TOKEN[JobState(state)]] += n
    again = rows.filter(retry_asked_at__isnull=False) if job.array_retries else ()
    for place, state, n in again:  # they wait, as in the list
        counts[place].update({_TOKEN[JobState(state)]: -n, "wait": n})
    missing = "stop" if job.cancel_requested_at else "wait"
    cells: list[dict[str, Any]] = []
    for place in range(-(-job.array_size // step)):
        first, last = place * step, min(job.array_size, (place + 1) * step) - 1
        own = counts[place]
        own[missing] += last - first + 1 - own.total()
        cells.append(_fold(own, first, last))
    return cells


def _fold(own: Mapping[str, int], first: int, last: int) -> dict[str, Any]:
    tokens = [token for token in WORST if own.get(token)]
    title = f"tasks {first}\u2013{last}: " + ", ".join(f"{own[token]} {WORDS[token]}" for token in tokens)
    return {"url": f"?from={first}#tasks", "token": tokens[0], "title": title, "attempt": None}


NAMED = 6
"""Tasks of a group that are named; the list below holds them all."""
CODES = 3
ENDED = {
    JobState.OUT_OF_MEMORY: "out of memory",
    JobState.TIMEOUT: "met the time limit",
    JobState.NODE_FAIL: "lost with a node",
}
"""How a group is called; any other failed."""


def failures_make(job: Job) -> list[dict[str, Any]]:
    """Group the failed tasks by state, the largest group first. At most four groups, so as many queries."""
    failed = job.tasks.filter(state__in=RETRIED, retry_asked_at=None)
    rows = failed.order_by().values("state", "exit_code", "signal").annotate(n=Count("pk"), first=Min("array_index"))
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[row["state"]].append(row)
    made = [_group(job, state, sorted(codes, key=lambda row: -row["n"])) for state, codes in groups.items()]
    return sorted(made, key=lambda group: -group["count"])


def _group(job: Job, state: str, codes: list[dict[str, Any]]) -> dict[str, Any]:
    count = sum(row["n"] for row in codes)
    shown = job.tasks.filter(state=state, retry_asked_at=None).order_by("array_index")[:NAMED]
    example = job.tasks.get(array_index=codes[0]["first"])
    return {
        "state": state,
        "words": ENDED.get(JobState(state), "failed"),
        "count": count,
        "tasks": [{"index": task.array_index, "url": reverse("job-detail", args=[task.number])} for task in shown],
        "more": max(0, count - NAMED),
        "codes": _codes(codes),
        "example": {"index": example.array_index, "url": reverse("job-detail", args=[example.number])},
        "line": last_line(job=example),  # on stderr if it printed there
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
