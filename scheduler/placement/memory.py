"""What a planning leaves to the next (algorithms.md section 6, *memory between plannings*): prices and columns.

They are suggestions: prices to start from and patterns to begin the master with, named by what stays the same (homes,
classes and kinds of pieces, not numbers). Whatever no longer exists is passed over. So a planning without them, or with
those of another cluster, gives as good a plan and the same bound, later.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from scheduler.placement.aggregated.patterns import Pattern

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from scheduler.model import Job
    from scheduler.placement.aggregated.classes import ClassKey
    from scheduler.placement.aggregated.options import Options
    from scheduler.placement.aggregated.patterns import Supply
    from scheduler.placement.aggregated.prices import Prices
    from scheduler.placement.aggregated.pricing import Priced
    from scheduler.placement.aggregated.skeletons import PieceRow, UnitRow

TAKEN = 1e-9


@dataclass(frozen=True, slots=True)
class Cut:
    """A pattern by name: the class of node, and how many pieces of which kinds."""

    of_class: ClassKey
    pieces: tuple[tuple[PieceRow | UnitRow, int], ...]


@dataclass(frozen=True, slots=True)
class Solved:
    """Of one stage: the relaxation's prices by label, and the patterns that the columns' relaxation used."""

    prices: Mapping[object, float] = field(default_factory=lambda: MappingProxyType({}))
    cuts: tuple[Cut, ...] = ()

    def patterns(self, supply: Supply, options: Options) -> list[Pattern]:
        """Those that still exist, in the numbers of this planning."""
        classes = {each.key: k for k, each in enumerate(supply.classes)}
        found = []
        for cut in self.cuts:
            rows = [(options.rows.get(key), times) for key, times in cut.pieces]
            if cut.of_class in classes and all(row is not None for row, _ in rows):
                pieces = tuple(sorted((row, times) for row, times in rows if row is not None))
                found.append(Pattern(classes[cut.of_class], pieces))
        return found


def solved(prices: Prices | None, priced: Priced | None, supply: Supply | None, options: Options) -> Solved:
    """What a stage leaves."""
    by_label = prices.by_label() if prices is not None else {}
    if priced is None or supply is None:
        return Solved(by_label)
    keys = list(options.rows)
    values = priced.values[len(priced.values) - len(priced.patterns) :]
    used = (pattern for pattern, value in zip(priced.patterns, values, strict=True) if value > TAKEN)
    cuts = (
        Cut(supply.classes[each.of_class].key, tuple((keys[row], times) for row, times in each.pieces)) for each in used
    )
    return Solved(by_label, tuple(cuts))


@dataclass(frozen=True, slots=True)
class Memory:
    """Of the stages, in the order of their solving; and the jobs that were found sound while these GPU types were known.

    Of such a job, the very same object, only `wait_s` is looked at again.
    """

    stages: Sequence[Solved] = ()
    sound: Mapping[int, Job] = field(default_factory=lambda: MappingProxyType({}))
    types: AbstractSet[str] = frozenset()

    def of(self, stage: int) -> Solved:
        return self.stages[stage] if stage < len(self.stages) else Solved()


NOTHING = Memory()
