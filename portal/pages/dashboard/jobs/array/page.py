"""An array's page: its progress, its failures with remedies, and its tasks, failed first.

The database counts; rows come a page at a time. So the page costs the same for 20 tasks and for 100 000.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from portal.pages.dashboard.jobs.array.body import failures_make, grid_make
from portal.pages.dashboard.jobs.array.kept import PAGE_ROWS, kept, size_of
from portal.pages.dashboard.jobs.array.query import ORDER, TaskQuery
from portal.pages.dashboard.jobs.array.sweep import sweep_make, sweep_of
from portal.pages.dashboard.jobs.array.table import cells_of, sorted_page, table_make
from portal.pages.dashboard.jobs.chain.page import chain_make
from portal.pages.dashboard.jobs.happened import events_make
from portal.pages.dashboard.jobs.head import header_make
from portal.pages.dashboard.jobs.rows import SEGMENTS, rows_of
from portal.pages.dashboard.jobs.why import array_why
from portal.work.jobs.states import RETRIED, JobState
from portal.work.sweeps.reading import wanted_note

if TYPE_CHECKING:
    from portal.pages.dashboard.jobs.array.sweep import Sweep
    from portal.pages.dashboard.parts.context import PageLinks, Rich, Segment
    from portal.work.jobs.models import Job

BAR_ORDER: tuple[str, ...] = ("fail", "done", "run", "stop", "wait")
LABELS = {"fail": "Failed", "run": "Running", "wait": "Waiting", "done": "Completed", "stop": "Held, cancelled"}
GLYPHS = {"fail": "FAILED", "run": "RUNNING", "wait": "PENDING", "done": "COMPLETED", "stop": "CANCELLED"}


# ---- how far it is -----------------------------------------------------------------------------------------------


def array_sums(job: Job) -> Counter[str]:
    """Count the tasks by the page's words. A failed task that will wait again, and one not made yet, count as waiting."""
    counts: Mapping[str, int] = job.array_counts
    sums = Counter({token: sum(counts.get(state, 0) for state in states) for token, states in SEGMENTS.items()})
    sums["wait"] += job.array_retries + (0 if job.cancel_requested_at else job.array_size - job.array_made)
    sums["fail"] -= job.array_retries
    if job.cancel_requested_at:
        sums["stop"] += job.array_size - job.array_made
    return sums


def array_body(job: Job, sweep: Sweep | None = None) -> dict[str, Any]:
    sums = array_sums(job)
    return {
        "id": job.number,
        "sentence": _sentence(job, sums),
        "segments": [{"token": token, "count": sums[token]} for token in BAR_ORDER if sums[token]],
        "legend": _chips(job, sums, TaskQuery(), everything=False),
        "grid": None if sweep else grid_make(job),
        "failures": failures_make(job),
        "hint": job.array_size > 1,
    }


def _sentence(job: Job, sums: Mapping[str, int]) -> Rich:
    done, size = sums["done"], job.array_size
    parts: list[Segment] = [
        {"text": f"{done} of {size}", "bold": True},
        {"text": f" task{'s' if size != 1 else ''} {'is' if size == 1 else 'are'} done"},
    ]
    words = {"fail": "failed", "run": "running", "wait": "waiting", "stop": "held or cancelled"}
    rest = [(token, word) for token, word in words.items() if sums[token]]
    for place, (group, word) in enumerate(rest):
        parts += [{"text": ", " if place else "; "}, {"text": f"{sums[group]} {word}", "bold": group == "fail"}]
    limit = f": you allowed {job.array_concurrency} at a time" if job.array_concurrency and sums["wait"] else ""
    return [*parts, {"text": f"{limit}."}]


def _chips(job: Job, sums: Mapping[str, int], query: TaskQuery, *, everything: bool = True) -> list[dict[str, Any]]:
    chips: list[dict[str, Any]] = []
    if everything:
        everyone = query.url(state="", page=None, **{"from": None})
        chips.append(_chip("", "All", job.array_size, everyone, selected=not query.state))
    for token in ORDER:
        if sums[token] or query.state == token:
            url = query.url(state=token, page=None, **{"from": None})
            chips.append(_chip(token, LABELS[token], sums[token], url, selected=query.state == token))
    return chips


def _chip(token: str, label: str, count: int, url: str, *, selected: bool) -> dict[str, Any]:
    state = GLYPHS.get(token)
    return {"token": token, "state": state, "label": label, "count": count, "url": url, "selected": selected}


def _chip_of_end(query: TaskQuery, count: int) -> list[dict[str, Any]]:
    """Return the chip of the one bad end that the list is narrowed to."""
    if query.state not in RETRIED:
        return []
    chip = _chip(query.state, JobState(query.state).label, count, query.url(page=None), selected=True)
    return [{**chip, "state": query.state}]


def array_context(*, job: Job, query: TaskQuery, only: str = "") -> dict[str, Any]:
    """Fill the page, or `only` its part "header", "array" or "tasks"."""
    context: dict[str, Any] = {"job": {"id": job.number}}
    sweep = None
    if only in {"", "array", "tasks"}:
        wanted_note(job)
        sweep = sweep_of(job, query)
    if only in {"", "header"}:
        context["job"] |= header_make(job)
    if only in {"", "array"}:
        context["job"] |= {"why": array_why(job), "events": events_make(job)}
        context["array"] = array_body(job, sweep)
        context["sweep"] = sweep and sweep_make(sweep)
    if only in {"", "chain"}:
        context["job"] |= {"chain": chain_make(job)}
    if only in {"", "tasks"}:
        context["tasks"] = array_tasks(job, query, sweep)
    return context


def folded_tasks(job: Job) -> list[Job]:
    """Return the tasks that an opened array shows in the job list."""
    return _page_of_tasks(job, TaskQuery(), 0)[0]


# ---- its tasks ---------------------------------------------------------------------------------------------------


def array_tasks(job: Job, query: TaskQuery, sweep: Sweep | None = None) -> dict[str, Any]:
    """Fill a page of the tasks that exist as rows: the others are made as these start."""
    sums = array_sums(job)
    first = (query.page - 1) * PAGE_ROWS
    found, total = sorted_page(sweep, first) if sweep and sweep.sort else _page_of_tasks(job, query, first)
    cells = cells_of(sweep, found) if sweep else [[] for _ in found]
    return {
        "sweep": sweep and table_make(sweep),
        "id": job.number,
        "query": query.url() if query != TaskQuery() else "",
        "chips": [*_chips(job, sums, query), *_chip_of_end(query, total)],
        "rows": [row | {"cells": own} for row, own in zip(_rows(found), cells, strict=True)],
        "paging": _paging(query, first=first, shown=len(found), total=total),
        "note": _note(job, query),
        "empty": "No task is in this state." if query.state else "No task has been made yet.",
    }


def _page_of_tasks(job: Job, query: TaskQuery, first: int) -> tuple[list[Job], int]:
    """Return a page's tasks and how many there are. Each group is asked by itself, so that an index gives its rows."""
    tasks = job.tasks.select_related("tenant", "owner").order_by("array_index")
    if query.first is not None:
        total = max(0, job.array_made - query.first)
        return list(tasks.filter(array_index__gte=query.first)[first : first + PAGE_ROWS]), total
    tokens = [query.state] if query.state else ORDER
    sizes = {token: size_of(job, token) for token in tokens}
    found: list[Job] = []
    skipped = first
    for token in tokens:
        if skipped < sizes[token] and len(found) < PAGE_ROWS:
            found += tasks.filter(kept(job, token))[skipped : skipped + PAGE_ROWS - len(found)]
        skipped = max(0, skipped - sizes[token])
    return found, sum(sizes.values())


def _rows(tasks: Sequence[Job]) -> list[dict[str, Any]]:
    return [
        {
            "row": row,
            "index": task.array_index,
            "attempt": task.epoch or None,
            "ran_s": task.ran_s if task.started_at else None,
            "running_since": row["started_at"] if task.state == JobState.RUNNING else None,
            "retry": task.retry_asked_at is not None,
        }
        for task, row in zip(tasks, rows_of(tasks, task=True), strict=True)
    ]


def _paging(query: TaskQuery, *, first: int, shown: int, total: int) -> PageLinks:
    order = "in their order" if query.first is not None else "failed first" if not query.state else "in their order"
    return {
        "summary": f"{first + 1}\u2013{first + shown} of {total} tasks, {order}" if shown else f"{total} tasks",
        "previous_url": query.url(page=query.page - 1) if query.page > 1 else None,
        "next_url": query.url(page=query.page + 1) if first + shown < total else None,
    }


def _note(job: Job, query: TaskQuery) -> str | None:
    """Say what is counted as waiting and has no row yet."""
    to_come = job.array_size - job.array_made
    if not to_come or query.state not in {"", "wait"}:
        return None
    return f"{to_come} more were never made." if job.cancel_requested_at else f"{to_come} more are made as these start."
