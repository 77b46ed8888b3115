"""The job list: filters from the address, a page of rows, chips with counts; a constant number of queries."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.db.models import Count
from django.urls import reverse

from portal.dashboard.jobs.order import SORTS, jobs_ordered, page_by_state, page_sorted
from portal.dashboard.jobs.rows import rows_of
from portal.errors import BerthError
from portal.jobs.searching import jobs_found
from portal.jobs.selectors import jobs_visible_to
from portal.jobs.states import FINAL, JobState
from portal.tenants.models import Tenant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from django.db.models import QuerySet
    from django.http import HttpRequest

    from portal.dashboard.jobs.context import (
        Direction,
        FilterMenu,
        JobListContext,
        SortHead,
        StatusChip,
    )
    from portal.dashboard.parts.context import Choice, PageLinks, Rich
    from portal.jobs.models import Job
    from portal.tenants.models import User

PAGE_ROWS = 50
S = JobState
CHIP_STATES = (
    S.RUNNING,
    S.STARTING,
    S.PENDING,
    S.HELD,
    S.COMPLETED,
    S.FAILED,
    S.TIMEOUT,
    S.OUT_OF_MEMORY,
    S.CANCELLED,
    S.NODE_FAIL,
)
GROUP_ORDER = (S.PENDING, S.PREEMPTED, S.HELD, S.STARTING, S.RUNNING)
GROUPS = (*((state,) for state in GROUP_ORDER), tuple(FINAL))
LABELS = {
    "state": "State",
    "job": "Job",
    "tenant": "Tenant",
    "owner": "Owner",
    "gpus": "GPUs",
    "cores": "Cores",
    "where": "Where, or why not",
    "waited": "Waited",
    "lr": "LR",
    "progress": "Progress",
    "start": "Start",
    "end": "End",
}


ORDER_NOTE = "Waiting first, then running, then ended."
ARRAYS_NOTE = "An array is one row; the queue counts its tasks."
FILTERS_NOTE = "Filters are in the address."


@dataclass(frozen=True)
class ListQuery:
    """What the address asks for. A value that means nothing is refused, not ignored."""

    owner: str = ""
    state: str = ""
    tenant: str = ""
    reason: str = ""
    q: str = ""
    sort: str = ""
    page: int = 1
    extra: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, request: HttpRequest) -> ListQuery:
        given = request.GET
        page = given.get("page", "1")
        if not (page.isascii() and page.isdigit() and 1 <= int(page[:9]) < 10**8):
            raise BerthError("invalid", "`page` must be a whole number from 1.", field="page")
        sort = given.get("sort", "")
        if sort and sort.removeprefix("-") not in SORTS:
            raise BerthError("invalid", f"`sort` must be one of {', '.join(SORTS)}.", field="sort")
        state = given.get("state", "")
        if state and state not in S.values:
            raise BerthError(
                "invalid", f"There is no state {state[:20]!r}; there are {', '.join(S.values)}.", field="state"
            )
        text = {name: given.get(name, "")[:100] for name in ("owner", "tenant", "reason", "q")}
        return cls(**text, state=state, sort=sort, page=int(page))

    def jobs(self, *, user: User, with_state: bool = True) -> QuerySet[Job]:
        jobs = jobs_visible_to(user).top_level()
        if self.owner == "mine":
            jobs = jobs.filter(owner=user)
        if self.tenant:
            jobs = jobs.filter(tenant__name=self.tenant)
        if self.reason:
            jobs = jobs.filter(reason=self.reason)
        if self.q:
            jobs = jobs_found(jobs, self.q)
        if with_state and self.state:
            jobs = jobs.filter(state=self.state)
        return jobs

    def ordered(self, *, user: User) -> QuerySet[Job]:
        """Return every job that the address asks for, in the list's order."""
        return jobs_ordered(self.jobs(user=user), self.sort, GROUPS)

    def page_of_jobs(self, *, user: User, counts: Mapping[str, int]) -> list[Job]:
        """Return the page's jobs; `counts` is how many there are by state."""
        first = (self.page - 1) * PAGE_ROWS
        if not self.sort:
            jobs = self.jobs(user=user, with_state=False)
            groups = [[self.state]] if self.state else GROUPS
            return page_by_state(jobs, groups, counts, first, PAGE_ROWS, searched=bool(self.q))
        total = counts.get(self.state, 0) if self.state else sum(counts.values())
        return page_sorted(self.jobs(user=user), self.sort, first, PAGE_ROWS, total=total)

    def url(self, **changes: Any) -> str:
        return reverse("job-list") + self.query(**changes)

    def query(self, **changes: Any) -> str:
        values = {name: getattr(self, name) for name in ("owner", "state", "tenant", "reason", "q", "sort")}
        values |= {"page": self.page if self.page > 1 else ""}
        values |= {"page": ""} if changes and "page" not in changes else {}
        kept = {name: value for name, value in (values | changes).items() if value}
        return f"?{urlencode(kept)}" if kept else ""


def list_context(*, user: User, query: ListQuery) -> JobListContext:
    """Fill the list's page."""
    began = time.perf_counter()
    base = query.jobs(user=user, with_state=False)
    counts, reasons = _counts(base, by_tenant=query.owner != "mine")
    total = counts.get(query.state, 0) if query.state else sum(counts.values())
    first = (query.page - 1) * PAGE_ROWS
    jobs = query.page_of_jobs(user=user, counts=counts)
    rows = rows_of(jobs)
    hidden = {"owner": query.owner, "state": query.state, "tenant": query.tenant, "reason": query.reason}
    return {
        "owners": _owners(query),
        "chips": _chips(counts, query),
        "search": query.q,
        "hidden_filters": [(name, value) for name, value in hidden.items() if value],
        "filters": _filters(user=user, query=query, reasons=reasons),
        "order_note": f"{ARRAYS_NOTE} {FILTERS_NOTE}" if query.sort else f"{ORDER_NOTE} {ARRAYS_NOTE} {FILTERS_NOTE}",
        "heads": {key: _head(key, query) for key in LABELS},
        "rows": rows,
        "show_progress": any(row["array"] or row["progress_percent"] is not None for row in rows),
        "paging": _paging(query, first=first, shown=len(rows), total=total),
        "query_ms": round((time.perf_counter() - began) * 1000),
        "empty": _empty(query),
        "csv_url": reverse("job-csv") + query.query(page=""),
        "query": query.query(page=query.page if query.page > 1 else ""),
    }


def _counts(jobs: QuerySet[Job], *, by_tenant: bool) -> tuple[Counter[str], Counter[str]]:
    """Count the jobs by state, and those that have one by reason, in one query that an index answers.

    `by_tenant`: it begins with the tenant. SQLite takes that index for no other grouping, and reads the rows.
    """
    states, reasons = Counter[str](), Counter[str]()
    columns = ("tenant", "state", "reason") if by_tenant else ("state", "reason")
    for *_, state, reason, count in jobs.order_by().values_list(*columns).annotate(n=Count("*")):
        states[state] += count
        if reason:
            reasons[reason] += count
    return states, reasons


def _owners(query: ListQuery) -> list[Choice]:
    return [
        {"value": "", "label": "Everyone", "selected": query.owner != "mine", "url": query.url(owner="")},
        {"value": "mine", "label": "Mine", "selected": query.owner == "mine", "url": query.url(owner="mine")},
    ]


def _chips(counts: Mapping[str, int], query: ListQuery) -> list[StatusChip]:
    chips: list[StatusChip] = [
        {
            "state": None,
            "label": "All",
            "count": sum(counts.values()),
            "url": query.url(state=""),
            "selected": not query.state,
        }
    ]
    chips += [
        {
            "state": state.value,
            "label": state.label,
            "count": counts.get(state.value, 0),
            "url": query.url(state=state.value),
            "selected": query.state == state.value,
        }
        for state in CHIP_STATES
        if counts.get(state.value) or query.state == state.value
    ]
    return chips


def _filters(*, user: User, query: ListQuery, reasons: Mapping[str, int]) -> list[FilterMenu]:
    tenants = list(Tenant.objects.visible_to(user).values_list("name", flat=True))
    menus = (
        [_menu("Tenant", "tenant", query.tenant, [(name, None) for name in tenants], query)] if len(tenants) > 1 else []
    )
    return [*menus, _menu("Reason", "reason", query.reason, sorted(reasons.items()), query)]


def _menu(label: str, name: str, value: str, options: Sequence[tuple[str, int | None]], query: ListQuery) -> FilterMenu:
    choices: list[Choice] = []
    for option, count in options:
        choice: Choice = {
            "value": option,
            "label": option,
            "selected": option == value,
            "url": query.url(**{name: option}),
        }
        choices.append(choice | {"count": count} if count is not None else choice)
    return {
        "label": label,
        "value": value or "any",
        "choices": choices,
        "clear_url": query.url(**{name: ""}) if value else None,
    }


def _head(key: str, query: ListQuery) -> SortHead:
    if key not in SORTS:
        return {"key": key, "label": LABELS[key], "url": None, "active": None}
    directions: dict[str, Direction] = {key: "asc", f"-{key}": "desc"}
    active = directions.get(query.sort)
    following = {"asc": f"-{key}", "desc": ""}.get(active or "", key)
    return {"key": key, "label": LABELS[key], "url": query.url(sort=following), "active": active}


def _paging(query: ListQuery, *, first: int, shown: int, total: int) -> PageLinks:
    return {
        "summary": f"{first + 1}\u2013{first + shown} of {total} rows" if shown else f"{total} rows",
        "previous_url": query.url(page=query.page - 1) if query.page > 1 else None,
        "next_url": query.url(page=query.page + 1) if first + shown < total else None,
    }


def _empty(query: ListQuery) -> Rich:
    if query.query(page="", sort=""):
        return [{"text": "No job matches. "}, {"text": "Clear the filters", "href": reverse("job-list")}]
    return [{"text": "No job yet. "}, {"text": "Submit one", "href": reverse("job-submit")}]
