"""Contexts of the pages of a job's artefacts. `parts.context` has the rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from portal.pages.dashboard.parts.context import Choice, PlotContext


class FileRow(TypedDict):
    name: str
    path: str
    key: str  # an id for the page
    url: str
    icon: str
    size_bytes: int | None
    at: str
    note: str | None  # "still being written", or why it is not kept
    selected: bool


class FolderRow(TypedDict):
    """A folder and its entries. `open`: it has the selected file, or it is one of few."""

    name: str
    url: str
    continue_url: str
    files: int
    size_bytes: int
    open: bool
    folders: list[FolderRow]
    rows: list[FileRow]


class QuotaRow(TypedDict):
    used: int
    quota: int
    own: int
    tenant: str
    kept: str | None  # "until 28 days after its end", as words
    until: str | None


class CurvesContext(TypedDict):
    """Plots of curves; `scales`, `smoothings` and `axes` are links. `notes` name the curves that are left out."""

    plots: list[PlotContext]
    scales: list[Choice]
    smoothings: list[Choice]
    axes: list[Choice]
    notes: list[str]
    more: int


class ShownFile(TypedDict):
    """The selected file. `preview` is one of `portal.work.previews.shown`; None: it has no content here."""

    name: str
    path: str
    row: FileRow
    preview: Any
    picture_url: str | None
    download_url: str | None
    continue_url: str | None
    sha256: str
    attempt: int
    curves: CurvesContext | None


class ArtefactsContext(TypedDict):
    id: int | str
    name: str
    state: str
    words: str
    tree: FolderRow
    under: str
    parent_url: str | None
    hidden: int
    shown: ShownFile | None
    curves: CurvesContext | None
    quota: QuotaRow
    notes: list[tuple[str, str]]
    notes_more: int
    all_url: str | None
    page_url: str
    tree_url: str
    shown_url: str
    may_remove: bool


class BeganRow(TypedDict):
    words: str  # "#41's checkpoints/last.pt"
    url: str | None
    target: str
    note: str | None  # "not kept any more"


class LineageContext(TypedDict):
    """The start of a job, and the newest jobs that began from it; `others`: their count beside the first, `more`: not listed."""

    began: list[BeganRow]
    later: list[dict[str, str]]
    others: int
    more: int


class ArtefactsCard(TypedDict):
    """The card on the job's page: the newest files, and the first curves."""

    files: int
    size_bytes: int
    rows: list[FileRow]
    plots: list[PlotContext]
    url: str
    all_url: str | None
    empty: str
    not_kept: int
