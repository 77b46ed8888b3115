"""Fragments over some hours as bars: of each its mean by time, and the most at one time.

The bars stand on a grid that does not move with the clock, so that a reader who looks again sees the same ones. Hours come
from all their plannings, each of which holds until the next; a day from its rounds' roll-ups, which keep both figures.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import F

from portal.planning.rounds.models import Planning
from portal.planning.rounds.read.series import rounds_since

PLANNINGS_UP_TO_H = 6


@dataclass(frozen=True, slots=True)
class Held:
    """Figures that held from one moment to another, in Unix seconds; `most`: of their sum, at one time."""

    start_s: float
    end_s: float
    cores: float
    scattered: float
    kept: float
    most: float


@dataclass(frozen=True, slots=True)
class Bar:
    """The means over what is known of a bar's time, and the most; None where nothing is known. `at`: its middle."""

    at: datetime
    cores: float | None
    scattered: float | None
    kept: float | None
    most: float | None


def fragment_bars(*, hours: float, now: datetime, count: int, hold_s: float) -> list[Bar]:
    """Return the bars of the last hours, some `count` of them, the last one still under way. Three queries at most.

    `hold_s`: for how long a planning's figures stand, at most.
    """
    step_s = hours * 3600 / count
    first = int((now.timestamp() - hours * 3600) // step_s)
    since = datetime.fromtimestamp(first * step_s, UTC)
    few = hours <= PLANNINGS_UP_TO_H
    held = _plannings(since=since, now=now, hold_s=hold_s) if few else _rounds(since=since, now=now)
    last = math.ceil(now.timestamp() / step_s) - 1
    return bars_of(held, step_s=step_s, first=first, count=last - first + 1)


def bars_of(held: Iterable[Held], *, step_s: float, first: int, count: int) -> list[Bar]:
    """Return `count` bars of `step_s` seconds from the `first`-th since the epoch on."""
    sums = [[0.0, 0.0, 0.0, 0.0] for _ in range(count)]  # seconds known, and the figures times seconds
    most: list[float | None] = [None] * count
    for each in held:
        begin = max(0, int(each.start_s // step_s) - first)
        for place in range(begin, min(count, int(each.end_s // step_s) - first + 1)):
            left = (first + place) * step_s
            seconds = min(each.end_s, left + step_s) - max(each.start_s, left)
            if seconds <= 0:
                continue
            for kind, value in enumerate((1.0, each.cores, each.scattered, each.kept)):
                sums[place][kind] += seconds * value
            most[place] = max(each.most, most[place] or 0.0)
    return [_bar((first + place + 0.5) * step_s, *sums[place], most=most[place]) for place in range(count)]


def _bar(middle_s: float, seconds: float, cores: float, scattered: float, kept: float, *, most: float | None) -> Bar:
    at = datetime.fromtimestamp(middle_s, UTC)
    if not seconds:
        return Bar(at, None, None, None, None)
    return Bar(at, cores / seconds, scattered / seconds, kept / seconds, most)


def _plannings(*, since: datetime, now: datetime, hold_s: float) -> list[Held]:
    """Read the plannings since then, and those before that may still hold, without the rest of their records."""
    rows = Planning.objects.filter(
        started_at__gte=since - timedelta(seconds=hold_s), started_at__lte=now, status=Planning.Status.APPLIED
    ).order_by("number")
    figures = rows.annotate(
        cores=F("metrics__fragments_cores"),
        scattered=F("metrics__fragments_scattered"),
        kept=F("metrics__fragments_kept"),
    )
    found: list[tuple[datetime, Any, Any, Any]] = list(figures.values_list("started_at", "cores", "scattered", "kept"))
    starts = [at.timestamp() for at, *_ in found]
    spans = zip(starts, [*starts, now.timestamp()][1:], found, strict=True)
    return [held for start, end, (_, *each) in spans for held in _held(start, min(end, start + hold_s), *each)]


def _rounds(*, since: datetime, now: datetime) -> list[Held]:
    names = ("fragments_cores", "fragments_scattered", "fragments_kept", "fragments_most")
    return [
        held
        for each in rounds_since(since=since, now=now)
        for held in _held(each.start.timestamp(), each.until.timestamp(), *map(each.figures.get, names))
    ]


def _held(start_s: float, end_s: float, cores: Any, scattered: Any, kept: Any, most: Any = None) -> list[Held]:
    """Return the GPUs that held then; nothing where they are unknown. Old records have no kept ones, old rounds no most."""
    if cores is None or scattered is None:
        return []
    together = cores + scattered + (kept or 0)
    return [Held(start_s, end_s, float(cores), float(scattered), float(kept or 0), together if most is None else most)]
