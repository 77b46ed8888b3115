"""Contexts of the queue's templates; `parts.context` has the rules and the shared parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    from portal.pages.dashboard.parts.context import PageLinks, Rich, StartsContext

Side = Literal["front", "backfill", "outside"]


class WhyItWaits(TypedDict):
    """The part of a row that a job has while it waits."""

    reason: str | None
    sentence: str | None
    to_start: str | None  # "2 more idle GPUs on a100-01"
    starts: StartsContext | None


class QueueRow(WhyItWaits):
    """A waiting job in its array's order. Of a foreign one only position and side are there, and a name that says so."""

    position: int
    side: Side
    name: str
    job_id: int | str | None
    url: str | None
    tenant: str | None
    needs: str | None  # "needs 4 or 8"
    state: str | None  # when it no longer waits
    lr: float | None
    waited_s: float | None
    share: float | None  # its tenant's, of its array, when the planning began
    turn: str | None  # why it stands here


class QueueLine(TypedDict):
    """A row, or the border between two sides of the window."""

    border: str | None
    row: QueueRow | None


class QueueArray(TypedDict):
    name: str
    title: str
    note: str
    window: Rich | None
    has_shares: bool  # the policy divides by shares
    lines: list[QueueLine]
    paging: PageLinks


class QueueShare(TypedDict):
    name: str
    held: float
    total: float
    share: float
    note: str | None


class QueueContext(TypedDict):
    subtitle: str
    planning_number: int | None
    planning_url: str | None
    at: str | None
    arrays: list[QueueArray]
    shares: list[QueueShare]
    kept: list[Rich]  # GPUs that are kept for jobs
    aside: str | None
    newcomers: int
    record: str | None
    query: str
