"""Contexts of the overview of my jobs, or of my tenant's; `parts.context` has the rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from django.utils.safestring import SafeString

    from portal.pages.dashboard.jobs.context import ArraySummary
    from portal.pages.dashboard.parts.context import Rich


class NeedLine(TypedDict):
    """A line of the band "Needs you". `what` and `jobs` say which line a dismissal puts aside."""

    icon: str
    tone: str
    lead: str
    text: str
    url: str
    act: str
    what: str
    jobs: str


class HomeJob(TypedDict):
    """One row, in four columns: job, GPUs and place, event, time."""

    number: int | str
    name: str
    url: str
    state: str
    owner: str | None
    about: str  # "ran 5 h 20 min"
    gpus: Rich
    where: str
    bar: float | None  # per cent
    array: ArraySummary | None
    line: SafeString | None  # of the next hours, with the start range
    goes: str
    remedy: str | None
    from_at: str | None
    to_at: str | None
    when: str  # "ends", "starts", "ended"
    tone: str


class HomeGroup(TypedDict):
    name: str
    count: int
    note: str
    rows: list[HomeJob]
    more: int
    url: str


class HomeJobs(TypedDict):
    title: str
    summary: str
    url: str
    groups: list[HomeGroup]


class HomeBar(TypedDict):
    """A figure with its bar. On few GPUs `cells` give each GPU's holder; else there is a bar."""

    value: str
    label: str
    end: str
    cells: list[str]
    parts: list[tuple[str, float]]
    total: float
    tick: float | None
    note: str | None
    near: bool


class HomeShare(TypedDict):
    tenant: str
    url: str | None
    bars: list[HomeBar]
    legend: list[tuple[str, str]]


class HomeChange(TypedDict):
    at: str
    number: int | str
    url: str
    state: str
    text: str
    times: int


class HomeNode(TypedDict):
    """A node, or on a large cluster a GPU type: its GPUs by whose they are."""

    name: str
    url: str | None
    note: str
    cells: list[str]
    parts: list[tuple[str, float]]
    total: int
    words: str


class HomeCluster(TypedDict):
    summary: str
    nodes: list[HomeNode]
    legend: list[tuple[str, str]]
    figures: list[tuple[str, str]]
