"""Contexts of the job list's page. `parts.context` has the rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from portal.pages.dashboard.jobs.context import Direction, JobRow
    from portal.pages.dashboard.parts.context import Choice, PageLinks, Rich


class StatusChip(TypedDict):
    state: str | None  # None: "All"
    label: str
    count: int
    url: str
    selected: bool


class FilterMenu(TypedDict):
    label: str  # "Tenant"
    value: str  # "any of 3"
    choices: list[Choice]  # with urls
    clear_url: str | None  # given when it filters


class SortHead(TypedDict):
    """A column's head. `active` is the direction in force."""

    key: str
    label: str
    url: str | None
    active: Direction | None
    css: str


class ColumnsContext(TypedDict):
    """The column picker: name, label, whether shown, whether it always is; the shown ones first, in their order."""

    choices: list[tuple[str, str, bool, bool]]
    usual: bool
    of_view: str | None


class SavedViews(TypedDict):
    choices: list[Choice]
    name: str | None  # of the one that is open
    own: bool
    delete_url: str | None
    shares: list[str]  # tenants with whose members one may be shared


class FilterFields(TypedDict):
    """The form of further filters. `on`: label, value and the address without it. Choices: value, words, selected."""

    on: list[tuple[str, str, str]]
    owner: str
    node: str
    label: str
    since: str
    until: str
    category: list[tuple[str, str, bool]]
    when: list[tuple[str, str, bool]]
    within: list[tuple[str, str, bool]]
    kept: list[tuple[str, str]]  # the other filters, as hidden inputs


class JobListContext(TypedDict):
    owners: list[Choice]  # Everyone, Mine; with urls
    chips: list[StatusChip]
    search: str
    hidden_filters: list[tuple[str, str]]  # the other filters, as hidden inputs of the search form
    filters: list[FilterMenu]
    order_note: str
    fields: FilterFields
    columns: list[SortHead]  # in the reader's order
    picker: ColumnsContext
    views: SavedViews
    rows: list[JobRow]
    paging: PageLinks
    query_ms: int | None
    empty: Rich
    csv_url: str | None
    query: str  # "?state=RUNNING", appended to the fragment's URL
