"""Contexts of a waiting job's templates; `parts.context` has the rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from django.utils.safestring import SafeString

    from portal.pages.dashboard.parts.context import StartsContext


class WayPoint(TypedDict):
    """An end in the way: when, whose job, and how many of the needed GPUs are free after it. `is_due`: it was expected by now."""

    at: str
    is_due: bool
    job: str
    url: str | None
    free: int
    cells: list[bool]


class EarlierRange(TypedDict):
    """A range as it was said, or as it is now."""

    said_at: str | None  # None: now
    earliest: str
    latest: str | None
    mark: SafeString


class Trust(TypedDict):
    """How past ranges at this distance fared. `marks` empty: too few starts to say."""

    sentence: str
    marks: list[str]  # held, later, earlier
    counts: list[tuple[str, int]]


class OffersContext(TypedDict):
    """The offers of the card."""

    offers: list[dict[str, Any]]  # as `portal.planning.offers` keeps them, with more for the page
    over: str | None  # when it is expected to be over as it stands
    offers_at: str | None
    note: str | None  # why there are no offers (yet)
    pending: bool  # they are being worked out: ask again
    said: str | None


class WaitingContext(OffersContext):
    """The whole card."""

    number: int | str
    at: str | None  # when its range was made
    starts: StartsContext | None
    percent: str
    line: SafeString | None
    node: str | None
    need: int
    points: list[WayPoint]
    more: str | None  # "and 3 more before 06:52"
    ranges: list[EarlierRange]
    trust: Trust | None
