"""The columns of the job list, and a reader's changes of it, for oneself or the tenant: columns and saved views."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from django.contrib import messages
from django.http import QueryDict
from django.shortcuts import redirect
from django.urls import reverse

from portal.foundation.errors import BerthError
from portal.pages.dashboard.jobs.query import ListQuery
from portal.people.accounts.lists import columns_keep, columns_of, view_delete, view_get, view_save
from portal.people.tenants.models import Tenant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.http import HttpRequest, HttpResponse


@dataclass(frozen=True)
class Column:
    label: str
    css: str
    """Classes of its cells; `b-drop` leaves it out on a phone."""


NUMBER = "b-number b-drop"
COLUMNS = {
    "state": Column("State", ""),
    "job": Column("Job", ""),
    "tenant": Column("Tenant", "b-drop"),
    "owner": Column("Owner", "b-drop"),
    "category": Column("Category", "b-drop"),
    "labels": Column("Labels", "b-drop"),
    "gpus": Column("GPUs", NUMBER),
    "cores": Column("Cores", NUMBER),
    "priority": Column("Priority", NUMBER),
    "where": Column("Where, or why it waits", "b-drop"),
    "when": Column("When", "b-number"),
    "ran": Column("Ran", NUMBER),
    "waited": Column("Waited", NUMBER),
    "lr": Column("Waited / run time", NUMBER),
    "progress": Column("Progress", "b-drop"),
    "submitted": Column("Submitted", NUMBER),
    "start": Column("Start", NUMBER),
    "end": Column("End", NUMBER),
}
USUAL = ("state", "job", "tenant", "owner", "gpus", "where", "when", "ran")
ALWAYS = "job"


def columns_parse(wanted: Sequence[str]) -> list[str]:
    """Return the columns asked for, each once, with the one that always stands. Code unknown_column."""
    for name in wanted:
        if name not in COLUMNS:
            known = ", ".join(COLUMNS)
            raise BerthError("unknown_column", f"There is no column {name[:30]!r}; known: {known}.", field="columns")
    found = list(dict.fromkeys(wanted))
    return found if ALWAYS in found else [ALWAYS, *found]


def columns_known(kept: Sequence[str]) -> list[str]:
    """Return the kept columns that still exist; the usual ones for nothing."""
    return [name for name in kept if name in COLUMNS] or list(USUAL)


def _read_query(request: HttpRequest) -> ListQuery:
    """Return the list that the form stood on. Raises BerthError."""
    try:
        asked = urlsplit(request.POST.get("next", "")).query
    except ValueError:
        raise BerthError("invalid", "`next` is not the address of a list of jobs.", field="next") from None
    return ListQuery.of(QueryDict(asked[:4000]))


def job_columns(request: HttpRequest) -> HttpResponse:
    """Keep which columns the reader sees, in the order of the form; `usual` goes back to the usual ones."""
    usual = request.POST.get("usual") == "1"
    columns = [] if usual else columns_parse(request.POST.getlist("column"))
    columns_keep(user=request.user, columns=[] if columns == list(USUAL) else columns)
    return redirect(_read_query(request).url(view=""))


def job_view_save(request: HttpRequest) -> HttpResponse:
    """Save filters, order and columns as they stand, under a name."""
    query = _read_query(request)
    try:
        columns = view_get(user=request.user, number=query.view).columns if query.view else columns_of(request.user)
        view = view_save(
            user=request.user,
            tenant=_tenant(request),
            name=request.POST.get("name", ""),
            query=query.query(page="", view="").removeprefix("?"),
            filters=query.chosen(),
            columns=columns_known(columns),
        )
    except BerthError as error:
        messages.error(request, error.detail)
        return redirect(query.url())
    messages.success(request, f"Saved: the view {view.name}.")
    return redirect(query.url(view=view.pk))


def _tenant(request: HttpRequest) -> Tenant | None:
    """Return the tenant to share with. A foreign and a missing one get the same answer."""
    name = request.POST.get("tenant", "")
    if not name:
        return None
    tenant = Tenant.objects.visible_to(request.user).filter(name=name).first()
    if tenant is None:
        raise BerthError(
            "unknown_tenant", f"There is no tenant {name[:40]!r}, or you are no member of it.", field="tenant"
        )
    return tenant


def job_view_delete(request: HttpRequest, number: str) -> HttpResponse:
    """Delete a view of one's own."""
    view_delete(user=request.user, number=number)
    messages.success(request, "Deleted the view.")
    return redirect(reverse("job-list"))
