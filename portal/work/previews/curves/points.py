"""Points of curves, from one or several files of one job, put together so that a restart leaves no break.

After a restart a job goes on from its checkpoint, and writes some steps a second time. What came later counts: where a
curve goes back by more than a few points, what was written from there on is forgotten.

A long file is read in evenly spaced blocks, so that a curve costs the same however long it has become.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import TYPE_CHECKING

from portal.work.previews.shown import NAME_CHARS, cut

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from portal.work.previews.shown import Source


MOST_CURVES = 48
"""Names of curves beyond these are counted and not kept."""
MOST_NAMES_COUNTED = 10_000
MOST_RECORDS = 100_000
"""Lines or events that are read for one picture, of all files together."""
POINTS_SHOWN = 600
SOONEST, LATEST = 1e9, 1e10
"""The Unix times of years 2001 to 2286; another number is no Unix time in seconds."""
JITTER = 8
"""A step that comes back by no more points than this was only written late."""


class Curve:
    """Steps, rising, and their values; None = not a finite number. `times`: when a step was written (Unix s), where known."""

    def __init__(self, steps: Sequence[float] = (), values: Sequence[float | None] = ()) -> None:
        self.steps, self.values = list(steps), list(values)
        self.times: dict[float, float] = {}

    def add(self, step: float, value: float | None, at: float | None = None) -> None:
        """Add a point in the order in which they were written."""
        if at is not None and SOONEST < at < LATEST:
            self.times[step] = at
        if not self.steps or step > self.steps[-1]:
            self.steps.append(step)
            self.values.append(value)
            return
        place = bisect_left(self.steps, step)
        if len(self.steps) - place > JITTER:
            del self.steps[place:], self.values[place:]
        if place < len(self.steps) and self.steps[place] == step:
            self.values[place] = value
            return
        self.steps.insert(place, step)
        self.values.insert(place, value)

    def thinned(self, most: int = POINTS_SHOWN) -> tuple[list[float], list[float | None]]:
        """Return at most about `most` points: of each stretch its lowest and its highest, and always the last one."""
        count = len(self.steps)
        if count <= most:
            return self.steps, self.values
        kept: list[int] = []
        width = 2 * count / most
        for stretch in range(most // 2):
            span = range(int(stretch * width), min(count, int((stretch + 1) * width)))
            known = [place for place in span if self.values[place] is not None]
            low = min(known, key=lambda place: self.values[place] or 0.0, default=span[0])
            high = max(known, key=lambda place: self.values[place] or 0.0, default=span[0])
            kept += sorted({low, high})
        if kept[-1] != count - 1:
            kept.append(count - 1)
        return [self.steps[place] for place in kept], [self.values[place] for place in kept]


class Points:
    """The curves of a job by name, and the counts of left-out parts."""

    def __init__(self) -> None:
        self.curves: dict[str, Curve] = {}
        self.others: set[str] = set()
        self.not_finite = self.damaged = self.records = 0
        self.thinned = False

    def may_read(self) -> bool:
        """Count one more line or event; False when there were enough."""
        self.records += 1
        self.thinned |= self.records > MOST_RECORDS
        return self.records <= MOST_RECORDS

    def add(self, name: str, step: float, value: float, at: float | None = None) -> None:
        name = cut(name, NAME_CHARS)
        curve = self.curves.get(name)
        if curve is None:
            if len(self.curves) >= MOST_CURVES:
                if len(self.others) < MOST_NAMES_COUNTED:
                    self.others.add(name)
                return
            curve = self.curves[name] = Curve()
        if not math.isfinite(step):
            self.damaged += 1
            return
        finite = math.isfinite(value)
        self.not_finite += not finite
        curve.add(step, value if finite else None, at)


BLOCK_BYTES = 128 * 1024
MOST_BLOCKS = 24
"""The most blocks of all files of a job together."""


def blocks(source: Source, most: int) -> Iterator[tuple[bool, bytes]]:
    """Yield (joined, bytes) of at most `most` blocks, the last of them the file's end.

    `joined`: the block goes on where the one before it ended.
    """
    whole = -(-source.size // BLOCK_BYTES)
    if whole <= most:
        for number in range(whole):
            yield number > 0, source.at(number * BLOCK_BYTES, BLOCK_BYTES)
        return
    last = source.size - BLOCK_BYTES
    for number in range(most):
        yield False, source.at(last * number // (most - 1), BLOCK_BYTES)


def is_sampled(source: Source, most: int) -> bool:
    return source.size > most * BLOCK_BYTES
