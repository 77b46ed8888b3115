"""States of a dynamic program over GPUs of each type given out too many or too few: boxes of them, and a job's changes."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

Box = list[tuple[int, int]]
"""The fewest and the most GPUs too many, by type."""
Losses = NDArray[np.float64]
Picks = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Change:
    """An option in place of the one that a job starts with: the loss, and the GPUs of each type given out more."""

    option: int | None
    loss: float
    more: tuple[int, ...]


def turn(losses: Losses, changes: Sequence[Change], before: Box, after: Box) -> tuple[Losses, Picks]:
    """The states after a job may have changed, and by which change (from 1; 0 = by none)."""
    found = np.full(shape(after), np.inf)
    pick = np.zeros(shape(after), dtype=np.uint8)
    for number, change in enumerate((Change(None, 0.0, (0,) * len(before)), *changes)):
        here: list[slice] = []
        there: list[slice] = []
        for (low, high), (least, most), more in zip(before, after, change.more, strict=True):
            first, last = max(low + more, least), min(high + more, most)
            here.append(slice(first - more - low, max(0, last - more - low + 1)))
            there.append(slice(first - least, max(0, last - least + 1)))
        if any(each.start >= each.stop for each in here):
            continue
        tried = losses[tuple(here)] + change.loss
        into = found[tuple(there)]
        better = tried < into
        np.copyto(into, tried, where=better)
        np.copyto(pick[tuple(there)], np.uint8(number), where=better)
    return found, pick


def alone(changes: Sequence[Change], kind: int) -> list[tuple[int, float]]:
    """The changes of one type: GPUs more, and the least loss of that."""
    least: dict[int, float] = {}
    for change in reversed(changes):
        least[change.more[kind]] = change.loss
    return [(more, loss) for more, loss in least.items() if more]


def spread(losses: Losses, moves: Sequence[tuple[int, float]]) -> Losses:
    """The least loss of each state after at most one of the moves."""
    found = losses.copy()
    for more, loss in moves:
        if more > 0:
            np.minimum(found[more:], losses[:-more] + loss, out=found[more:])
        else:
            np.minimum(found[:more], losses[-more:] + loss, out=found[:more])
    return found


def steps(turns: Sequence[Sequence[Change]], boxes: Sequence[Box]) -> int:
    return sum((len(changes) + 1) * prod(shape(box)) for changes, box in zip(turns, boxes, strict=False))


def shape(box: Box) -> tuple[int, ...]:
    return tuple(high - low + 1 for low, high in box)


def plus(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(a + b for a, b in zip(one, other, strict=True))


def minus(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(a - b for a, b in zip(one, other, strict=True))
