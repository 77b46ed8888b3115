"""The memory that a planning leaves to the next (algorithms.md section 6, *memory between plannings*): prices and columns.

They are suggestions: prices to start from, and patterns to begin the master with. They are named by things that stay the same
(homes, classes and kinds of pieces), not by numbers. Names that no longer exist are ignored. A planning without them, or with
those of another cluster, finds as good a plan and the same bound, but later.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from scheduler.copies import replace
from scheduler.placement.aggregated.patterns import Pattern, Supply

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from scheduler.placement.aggregated.candidates import Candidates
    from scheduler.placement.aggregated.classes import ClassKey
    from scheduler.placement.aggregated.prices import Prices
    from scheduler.placement.aggregated.pricing import Priced
    from scheduler.placement.aggregated.skeletons import PieceRow, SharedRow

TAKEN = 1e-9
SHARPLY = 0.75
"""How far the pass goes from the relaxation's prices to the columns'. Measured on 512, 2 000 and 10 000 mixed GPUs: with 0 the
plan has 95.5, 97.1 and 96.8 % of its bound, with 0.75 96.5, 98.5 and 98.7, with 1 94.8, 98.2 and 98.9."""
MOST_ROWS = 0.5
"""The share of the rows that must be remembered for the pass to go by their prices."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A pattern by name: the class of node, and how many pieces of which kinds."""

    of_class: ClassKey
    pieces: tuple[tuple[PieceRow | SharedRow, int], ...]


@dataclass(frozen=True, slots=True)
class Solved:
    """The memory of one stage: the relaxation's prices by label, and the patterns that the columns' relaxation used.

    `sharper`: by row, the columns' price of a piece over the relaxation's. It holds when weights or scarcity change.
    """

    prices: Mapping[object, float] = field(default_factory=lambda: MappingProxyType({}))
    cuts: tuple[Cut, ...] = ()
    sharper: Mapping[PieceRow | SharedRow, float] = field(default_factory=lambda: MappingProxyType({}))

    def moved_on(self, prices: Prices | None) -> Solved:
        """The memory of a stage that got no further than the relaxation: its prices, and its earlier columns."""
        return self if prices is None else replace(self, prices=prices.by_label())

    def sharpened(self, pieces: np.ndarray, rows: Iterable[PieceRow | SharedRow]) -> np.ndarray:
        """The relaxation's prices of these rows, as the columns would have them; as they are when few are known."""
        found = [self.sharper.get(row, 0.0) for row in rows]
        factor = np.array(found, dtype=float)
        known = factor > 0
        if not len(known) or known.mean() < MOST_ROWS:
            return pieces
        sharpened: np.ndarray = pieces * np.where(known, 1.0 + SHARPLY * (factor - 1.0), 1.0)
        return sharpened

    def patterns(self, supply: Supply, candidates: Candidates) -> list[Pattern]:
        """Those that still exist, in the numbers of this planning."""
        classes = {each.key: k for k, each in enumerate(supply.classes)}
        found = []
        for cut in self.cuts:
            rows = [(candidates.rows.get(key), times) for key, times in cut.pieces]
            if cut.of_class in classes and all(row is not None for row, _ in rows):
                pieces = tuple(sorted((row, times) for row, times in rows if row is not None))
                found.append(Pattern(classes[cut.of_class], pieces))
        return found


def solved(prices: Prices | None, priced: Priced, supply: Supply, candidates: Candidates) -> Solved:
    """The memory of a stage whose columns were priced."""
    keys = list(candidates.rows)
    values = priced.values[len(priced.values) - len(priced.patterns) :]
    rows = supply.consistent(priced.prices[len(candidates.groups) : len(candidates.groups) + len(keys)])
    used = (pattern for pattern, value in zip(priced.patterns, values, strict=True) if value > TAKEN)
    cuts = (
        Cut(supply.classes[each.of_class].key, tuple((keys[row], times) for row, times in each.pieces)) for each in used
    )
    return Solved({}, tuple(cuts), _sharper(keys, rows, prices)).moved_on(prices)


def _sharper(
    keys: Sequence[PieceRow | SharedRow], rows: np.ndarray, prices: Prices | None
) -> Mapping[PieceRow | SharedRow, float]:
    if prices is None:
        return {}
    return {
        key: max(row / piece, TAKEN)
        for key, row, piece in zip(keys, rows.tolist(), prices.pieces.tolist(), strict=True)
        if piece > TAKEN
    }
