"""Contexts of the page of compared jobs. `parts.context` has the rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, NotRequired, TypedDict

if TYPE_CHECKING:
    from portal.pages.dashboard.artefacts.context import CurvesContext
    from portal.pages.dashboard.jobs.context import JobRow
    from portal.pages.dashboard.parts.context import Choice, LegendItem, PlotContext


class ComparedJob(TypedDict):
    """The head of a column. `token`: the colour of its lines; `without_url`: the page without it, None where two are left."""

    row: JobRow
    token: str
    without_url: str | None


class Cell(TypedDict):
    """A job's cell of a row: `text`, a time `at`, or a state. `note` stands below; all empty: a dash."""

    job: NotRequired[str]  # "#41": its column on a phone
    text: str
    at: str | None
    state: str | None
    note: str | None


class CompareRow(TypedDict):
    label: str
    cells: list[Cell]
    is_text: bool  # lines to be shown as they are


class CompareContext(TypedDict):
    jobs: list[ComparedJob]
    numbers: list[str]
    apart: list[CompareRow]
    apart_more: int  # rows that are left out
    course: list[CompareRow]
    alike: list[tuple[str, str]]
    curves: CurvesContext | None
    measured: list[PlotContext]
    legend: list[LegendItem]
    can_add: bool
    most: int
    offered: list[Choice]
    offered_of: str  # "Latest jobs of ines.m"
    query: str
