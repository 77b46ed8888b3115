"""Shapes that several rooms fill or read. A context of one function for one template is a plain dict, written there.

Rules for all that fill these. A figure that is not computed is None and its block is then absent, never 0 or "n/a".
Times are ISO 8601 UTC strings; the browser shows them in the reader's zone. Durations are seconds, shares are 0..1
unless the name ends in `_percent`; text is plain (templates escape it). `Rich` is a sentence with emphasis:
a plain string, or a list of segments, printed by the tag `{% rich %}`.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict


class Segment(TypedDict):
    """A piece of a sentence; `code` prints a reason's words, `href` a link; a `whole` one never breaks at a hyphen."""

    text: str
    bold: NotRequired[bool]
    note: NotRequired[bool]
    href: NotRequired[str]
    code: NotRequired[bool]
    whole: NotRequired[bool]


Rich = str | list[Segment]


class Choice(TypedDict):
    """One choice of a select, a segmented control, a filter menu or a tab."""

    value: str
    label: str
    selected: bool
    url: NotRequired[str]
    note: NotRequired[str]
    count: NotRequired[int]


class Banner(TypedDict):
    """One line above every page. `key`: by which the reader's browser puts it away; "": it goes when it is over."""

    key: str
    text: str


class Shell(TypedDict):
    """Every signed-in page's frame, from a context processor, as `shell`; absent before sign-in and on error pages."""

    title: str  # of the page, from the registry
    menu: list[Choice]  # the navigation
    username: str
    time_zone: str  # "": the browser's
    initials: str
    is_operator: bool
    tenants: list[str]
    live_streams: list[str]  # "cluster", and "job:42" on a job's page; empty: the page is not live
    live_numbers: dict[str, int]  # last number of each stream when the page was rendered; a gap since then refetches
    banner: Banner | None


class LegendItem(TypedDict):
    label: str
    token: str  # "plot-1"


class PlotContext(TypedDict):
    name: str
    title: str
    note: str
    url: str  # answers figure JSON, see lines.py
    height_px: NotRequired[int]
    refresh_s: NotRequired[int]  # seconds between two drawings
    topics: NotRequired[str]  # live topics that refetch the figure, default "planning metrics"


class Fact(TypedDict):
    label: str
    value: str
    note: NotRequired[str | None]
    at: NotRequired[str | None]  # ISO: then printed as a time after the value
    href: NotRequired[str | None]


class PageLinks(TypedDict):
    """Paging. `summary`: "1-50 of 671 plannings"; None for no such page."""

    summary: str
    previous_url: str | None
    next_url: str | None


class StartsContext(TypedDict):
    """A predicted start; `median`, `latest` None: beyond what was simulated. `passed`: it is over, and the job waits."""

    earliest: str
    median: str | None
    latest: str | None
    passed: bool
    record: NotRequired[str | None]  # how past ranges fared


class FieldContext(TypedDict):
    """A form field. kind "checks" and "select" give `choices`; `width` is columns out of 12."""

    name: str
    label: str
    kind: Literal["text", "number", "textarea", "select", "check", "checks", "hidden"]
    value: str
    choices: NotRequired[list[Choice]]
    checked: NotRequired[bool]
    help: NotRequired[str | None]
    error: NotRequired[str | None]
    placeholder: NotRequired[str | None]
    effect: NotRequired[str | None]  # of a hint: "-1 core"
    mono: NotRequired[bool]
    required: NotRequired[bool]
    width: NotRequired[int]


class KeptRow(TypedDict):
    """A job that resources of a node are kept for. `who`: "#1042" or "a job of another tenant"; `until` in words."""

    url: str | None
    who: str
    until: str
