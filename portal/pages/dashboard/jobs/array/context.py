"""Contexts of an array's page. `parts.context` has the rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from portal.pages.dashboard.jobs.context import BarSegment, JobRow
    from portal.pages.dashboard.parts.context import PageLinks, Rich


class ArrayChip(TypedDict):
    """A count of tasks that filters the list; `state` gives the glyph, None for all."""

    token: str
    state: str | None
    label: str
    count: int
    url: str
    selected: bool


class GridCell(TypedDict):
    """A task, or a run of neighbours. `url` None: not made yet. `attempt` is given above 1."""

    url: str | None
    token: str
    title: str
    attempt: int | None


class GridRow(TypedDict):
    first: int
    cells: list[GridCell]


class GridContext(TypedDict):
    rows: list[GridRow]
    step: int  # tasks a cell
    again: bool  # some cell shows an attempt


class TaskLink(TypedDict):
    index: int
    url: str


class FailureGroup(TypedDict):
    """The failed tasks of one state. `line` is the last that `example` printed, on stderr if it did."""

    state: str
    label: str
    count: int
    tasks: list[TaskLink]
    more: int
    codes: str | None
    example: TaskLink
    line: str | None
    detail: str | None
    remedy: str | None
    can_retry: bool


class ArrayBodyContext(TypedDict):
    id: int | str
    sentence: Rich
    segments: list[BarSegment]
    legend: list[ArrayChip]
    grid: GridContext
    failures: list[FailureGroup]
    limit: int | None


class TaskRow(TypedDict):
    row: JobRow
    index: int
    attempt: int | None
    ran_s: float | None
    running_since: str | None
    retry: bool


class ArrayTasksContext(TypedDict):
    id: int | str
    query: str
    chips: list[ArrayChip]
    rows: list[TaskRow]
    paging: PageLinks
    note: str | None
    empty: str
