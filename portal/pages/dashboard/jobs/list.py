"""The job list: filters from the address, a page of rows, chips with counts; a constant number of queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.urls import reverse

from portal.foundation.errors import NotFound
from portal.pages.dashboard.jobs.order import SORTS
from portal.pages.dashboard.jobs.query import CATEGORIES, MINE, PAGE_ROWS, WITHIN, ListQuery
from portal.pages.dashboard.jobs.rows import JobRow, rows_of
from portal.pages.dashboard.jobs.saved import ALWAYS, COLUMNS, USUAL, columns_known
from portal.pages.dashboard.parts.plain import reason_words
from portal.pages.dashboard.templatetags.berth import STATES
from portal.people.accounts.lists import columns_of, views_of
from portal.people.tenants.models import Tenant, User
from portal.people.tenants.selectors import WORK, may
from portal.work.jobs.searching import TIMES
from portal.work.jobs.states import JobState

if TYPE_CHECKING:
    from portal.pages.dashboard.parts.context import Choice, PageLinks, Rich
    from portal.people.accounts.models import JobView

S = JobState
CHIP_STATES = (
    S.RUNNING,
    S.STARTING,
    S.PENDING,
    S.PREEMPTED,
    S.HELD,
    S.COMPLETED,
    S.FAILED,
    S.TIMEOUT,
    S.OUT_OF_MEMORY,
    S.CANCELLED,
    S.NODE_FAIL,
)
FORM = {"tenant", "reason", "owner", "node", "label", "category", "when", "within", "since", "until"}
SHARES_MOST = 20
"""Tenants to choose from; a reader with more (an operator) shares no view."""


TIME_WORDS = {"submitted": "Submitted", "started": "Started", "ended": "Ended"}


def list_context(*, user: User, query: ListQuery) -> dict[str, Any]:
    """Fill the list's page. Raises NotFound for a saved view that is not the reader's."""
    views = list(views_of(user))
    view = _view_open(views, query)
    columns = columns_known(view.columns if view else columns_of(user))
    counts = query.counts(user=user)
    total = query.counted(counts)
    first = (query.page - 1) * PAGE_ROWS
    rows = rows_of(query.page_of_jobs(user=user, counts=counts))
    tenants = list(Tenant.objects.visible_to(user))
    shown = _columns_shown(columns, rows, alone=len(tenants) == 1)
    return {
        "owners": _owners(query),
        "chips": _chips(counts.states, query),
        "search": query.q,
        "hidden_filters": [(name, value) for name, value in query.chosen().items() if name != "q"],
        "fields": _fields(query, tenants=[tenant.name for tenant in tenants], reasons=counts.reasons),
        "columns": [_head(key, query) for key in shown],
        "picker": _picker(columns, view),
        "views": _views(views, view, user=user, tenants=tenants),
        "rows": rows,
        "paging": _paging(query, first=first, shown=len(rows), total=total),
        "empty": _empty(query),
        "csv_url": reverse("job-csv") + query.query(page=""),
        "query": query.query(page=query.page if query.page > 1 else ""),
    }


def _view_open(views: Sequence[JobView], query: ListQuery) -> JobView | None:
    found = next((view for view in views if str(view.pk) == query.view), None)
    if query.view and found is None:
        raise NotFound("view")
    return found


def _columns_shown(columns: Sequence[str], rows: Sequence[JobRow], *, alone: bool) -> list[str]:
    """Leave out the progress where no row has any, and from the usual columns the tenant of a reader with one (`alone`).

    Tell opened arrays which columns their tasks are to have.
    """
    has_progress = any(row["array"] or row["progress_percent"] is not None for row in rows)
    without = {"progress": not has_progress, "tenant": alone and list(columns) == list(USUAL)}
    shown = [name for name in columns if not without.get(name)]
    for row in rows:
        if row["array"]:
            row["array"]["tasks_url"] += f"?{urlencode({'columns': ','.join(shown)})}"
    return shown


def _picker(columns: Sequence[str], view: JobView | None) -> dict[str, Any]:
    """Return name and label of each column, whether it is shown and whether it always is; the shown ones first."""
    others = [name for name in COLUMNS if name not in columns]
    choices = [(name, COLUMNS[name].label, name in columns, name == ALWAYS) for name in (*columns, *others)]
    return {"choices": choices, "usual": list(columns) == list(USUAL), "of_view": view.name if view else None}


def _views(views: Sequence[JobView], view: JobView | None, *, user: User, tenants: Sequence[Tenant]) -> dict[str, Any]:
    """Return the saved views; `tenants`: those with whose members the reader may share one."""
    choices: list[Choice] = [
        {
            "value": str(each.pk),
            "label": each.name,
            "selected": each == view,
            "url": f"{reverse('job-list')}?{'&'.join(part for part in (each.query, f'view={each.pk}') if part)}",
            "note": f"{each.owner.username}, {each.tenant.name}" if each.tenant else "",
        }
        for each in views
    ]
    shares = [tenant.name for tenant in tenants if may(user, tenant, WORK)] if len(tenants) <= SHARES_MOST else []
    own = view is not None and view.owner_id == user.pk
    return {
        "choices": choices,
        "name": view.name if view else None,
        "own": own,
        "delete_url": reverse("job-view-delete", args=[view.pk]) if view and own else None,
        "shares": shares,
    }


def _fields(query: ListQuery, *, tenants: Sequence[str], reasons: Mapping[str, int]) -> dict[str, Any]:
    """Return the form of filters (choices: value, words, selected), and those in force with the address without each."""
    named = {"owner": "" if query.owner == MINE else query.owner, "node": query.node, "label": query.label}
    on = [(name.title(), value, query.url(**{name: ""})) for name, value in named.items() if value]
    if query.tenant:
        on.append(("Tenant", query.tenant, query.url(tenant="")))
    if query.reason:
        on.append(("Waits", reason_words(query.reason), query.url(reason="")))
    if query.looked:
        on.append(("Bad end", "not looked at", query.url(looked="")))
    if query.category:
        on.append(("Category", query.category, query.url(category="")))
    if query.when or query.within or query.since or query.until:
        cleared = query.url(when="", within="", since="", until="")
        on.append((TIME_WORDS[query.when or TIMES[0]], _stretch_words(query), cleared))
    return {
        "on": on,
        "owner": named["owner"],
        "node": query.node,
        "label": query.label,
        "tenant": [(name, name, name == query.tenant) for name in tenants if len(tenants) > 1],
        "reason": [
            (code, f"{reason_words(code)}, {count}", code == query.reason) for code, count in sorted(reasons.items())
        ],
        "since": query.since,
        "until": query.until,
        "category": [(name, name, name == query.category) for name in CATEGORIES],
        "when": [(name, TIME_WORDS[name], name == query.when) for name in TIMES],
        "within": [(name, words, name == query.within) for name, (words, _) in WITHIN.items()],
        "kept": [(name, value) for name, value in query.chosen().items() if name not in FORM]
        + ([("owner", MINE)] if query.owner == MINE else []),
    }


def _stretch_words(query: ListQuery) -> str:
    if query.within:
        return f"in {WITHIN[query.within][0]}"
    ends = [("from", query.since), ("until", query.until)]
    return " ".join(f"{word} {moment.replace('T', ' ')}" for word, moment in ends if moment) + " UTC"


def _owners(query: ListQuery) -> list[Choice]:
    return [
        {"value": "", "label": "Everyone", "selected": query.owner != MINE, "url": query.url(owner="")},
        {"value": "mine", "label": "Mine", "selected": query.owner == MINE, "url": query.url(owner="mine")},
    ]


def _chips(counts: Mapping[str, int], query: ListQuery) -> list[dict[str, Any]]:
    chips: list[dict[str, Any]] = [
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
            "label": STATES[state.value][1],
            "count": counts.get(state.value, 0),
            "url": query.url(state=state.value),
            "selected": state.value in query.states,
        }
        for state in CHIP_STATES
        if counts.get(state.value) or state.value in query.states
    ]
    return chips


def _head(key: str, query: ListQuery) -> dict[str, Any]:
    column = COLUMNS[key]
    if key not in SORTS:
        return {"key": key, "label": column.label, "url": None, "active": None, "css": column.css}
    directions: dict[str, str] = {key: "asc", f"-{key}": "desc"}
    active = directions.get(query.sort)
    following = {"asc": f"-{key}", "desc": ""}.get(active or "", key)
    return {"key": key, "label": column.label, "url": query.url(sort=following), "active": active, "css": column.css}


def _paging(query: ListQuery, *, first: int, shown: int, total: int) -> PageLinks:
    return {
        "summary": f"{first + 1}\u2013{first + shown} of {total} rows" if shown else f"{total} rows",
        "previous_url": query.url(page=query.page - 1) if query.page > 1 else None,
        "next_url": query.url(page=query.page + 1) if first + shown < total else None,
    }


def _empty(query: ListQuery) -> Rich:
    if query.chosen():
        return [{"text": "No job matches. "}, {"text": "Clear the filters", "href": reverse("job-list")}]
    return [{"text": "No job yet. "}, {"text": "Submit one", "href": reverse("job-submit")}]
