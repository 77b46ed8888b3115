"""An array's page: its progress, its failures with remedies, and its tasks, failed first.

The database counts; rows come a page at a time. So the page costs the same for 20 tasks and for 100 000.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.db.models import Q
from django.http import QueryDict

from portal.foundation.errors import BerthError
from portal.pages.dashboard.jobs.array.body import failures_make, grid_make
from portal.pages.dashboard.jobs.chain.page import chain_make
from portal.pages.dashboard.jobs.page import events_make, header_make
from portal.pages.dashboard.jobs.rows import SEGMENTS, rows_of
from portal.pages.dashboard.jobs.why import why_make
from portal.planning.rounds.read.explained import explanation
from portal.work.jobs.states import QUEUED, RETRIED, JobState

if TYPE_CHECKING:
    from portal.pages.dashboard.parts.context import PageLinks, Rich, Segment
    from portal.work.jobs.models import Job

PAGE_ROWS = 50
ORDER = ("fail", "run", "wait", "done", "stop")
BAR_ORDER: tuple[str, ...] = ("fail", "done", "run", "stop", "wait")
LABELS = {"fail": "Failed", "run": "Running", "wait": "Waiting", "done": "Completed", "stop": "Held, cancelled"}
GLYPHS = {"fail": "FAILED", "run": "RUNNING", "wait": "PENDING", "done": "COMPLETED", "stop": "CANCELLED"}
BEYOND = 10**9


@dataclass(frozen=True)
class TaskQuery:
    """The address in values: `state` is one of ORDER, a bad end or empty; `first` begins the list at that task, in their
    order.
    """

    state: str = ""
    page: int = 1
    first: int | None = None

    @classmethod
    def of(cls, given: QueryDict) -> TaskQuery:
        state = given.get("state", "")
        if state and state not in {*ORDER, *RETRIED}:
            known = ", ".join((*ORDER, *sorted(RETRIED)))
            raise BerthError("invalid", f"`state` must be one of {known}.", field="state")
        first = _whole(given.get("from"), "from")
        return cls(state=state, page=max(1, _whole(given.get("page"), "page") or 1), first=first)

    def url(self, **changes: Any) -> str:
        values = {"state": self.state, "from": self.first, "page": self.page if self.page > 1 else None} | changes
        kept = {name: value for name, value in values.items() if value not in {None, ""}}
        return f"?{urlencode(kept)}" if kept else "?"


def _whole(raw: str | None, name: str) -> int | None:
    if not raw:
        return None
    if not (raw.isascii() and raw.isdigit() and len(raw) <= 12 and int(raw) < BEYOND):
        raise BerthError("invalid", f"`{name}` must be a whole number below {BEYOND}.", field=name)
    return int(raw)


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


def array_body(job: Job) -> dict[str, Any]:
    sums = array_sums(job)
    return {
        "id": job.number,
        "sentence": _sentence(job, sums),
        "segments": [{"token": token, "count": sums[token]} for token in BAR_ORDER if sums[token]],
        "legend": _chips(job, sums, TaskQuery(), everything=False),
        "grid": grid_make(job),
        "failures": failures_make(job),
        "limit": job.array_concurrency,
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
    return [*parts, {"text": "."}]


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
    if only in {"", "header"}:
        context["job"] |= header_make(job)
    if only in {"", "array"}:
        waits = job.state in QUEUED
        why = why_make(job, explanation(job), []) if waits else None
        context["job"] |= {"why": why, "numbers": None, "events": events_make(job)}
        context["array"] = array_body(job)
    if only in {"", "chain"}:
        context["job"] |= {"chain": chain_make(job)}
    if only in {"", "tasks"}:
        context["tasks"] = array_tasks(job, query)
    return context


def folded_tasks(job: Job) -> list[Job]:
    """Return the tasks that an opened array shows in the job list."""
    return _page_of_tasks(job, TaskQuery(), 0)[0]


# ---- its tasks ---------------------------------------------------------------------------------------------------


def array_tasks(job: Job, query: TaskQuery) -> dict[str, Any]:
    """Fill a page of the tasks that exist as rows: the others are made as these start."""
    sums = array_sums(job)
    first = (query.page - 1) * PAGE_ROWS
    found, total = _page_of_tasks(job, query, first)
    return {
        "id": job.number,
        "query": query.url() if query != TaskQuery() else "",
        "chips": [*_chips(job, sums, query), *_chip_of_end(query, total)],
        "rows": _rows(found),
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
    sizes = {token: _size(job, token) for token in tokens}
    found: list[Job] = []
    skipped = first
    for token in tokens:
        if skipped < sizes[token] and len(found) < PAGE_ROWS:
            found += tasks.filter(_kept(job, token))[skipped : skipped + PAGE_ROWS - len(found)]
        skipped = max(0, skipped - sizes[token])
    return found, sum(sizes.values())


def _kept(job: Job, word: str) -> Q:
    """Return which tasks a word of the page, or a bad end, is for. A failed one that shall be tried again waits."""
    states = Q(state__in=SEGMENTS.get(word, (word,)))
    if not job.array_retries or word not in {"wait", "fail", *RETRIED}:
        return states
    again = Q(retry_asked_at__isnull=False)
    return states | again if word == "wait" else states & ~again


def _size(job: Job, word: str) -> int:
    """Count the rows of these tasks; only one bad end of an array with tasks to be tried again is counted in the table."""
    if word in RETRIED and job.array_retries:
        return job.tasks.filter(_kept(job, word)).count()
    again = {"wait": job.array_retries, "fail": -job.array_retries}.get(word, 0)
    return sum(job.array_counts.get(state, 0) for state in SEGMENTS.get(word, (word,))) + again


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
