"""The pieces that fit into one node: the best and all combinations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from scheduler.placement.aggregated.skeletons import PieceRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scheduler.placement.aggregated.candidates import Candidates
    from scheduler.placement.aggregated.classes import Pool


Offer = tuple[tuple["Pool", ...], bool]
"""The pools that a class offers to, and whether the cores of limited jobs are counted apart there."""

MOST_TO_LIST, STEPS = 160, 20_000
"""Kinds of pieces times GPUs, and steps of the listing, above which it is given up: such a class has too many."""

SKIP = -1
"""In a table of chosen kinds: leave one GPU idle."""


class Capacity(NamedTuple):
    """The free capacity of a class's node for patterns. `limit` = cores for pieces of limited jobs; 0 where none needs it."""

    gpus: int
    cores: int
    limit: int


@dataclass(frozen=True, slots=True)
class PieceKinds:
    """The pieces that classes of the same pools offer, as arrays, and the most that any of these classes has.

    `limited`: the cores that a piece takes of those that limited jobs may use; all 0 where that needs no counting.
    """

    rows: np.ndarray
    gpus: np.ndarray
    cores: np.ndarray
    limited: np.ndarray
    most: Capacity

    @classmethod
    def of(cls, pieces: Iterable[tuple[int, int, int, int]], most: Capacity) -> PieceKinds:
        """Make them from pieces (row, GPUs, cores, cores of those limited), the largest first, as far as they fit."""
        fitting = [piece for piece in pieces if piece[1] <= most.gpus and piece[2] <= most.cores]
        columns = np.array(sorted(fitting, key=lambda piece: (-piece[1], -piece[2], piece[0])), dtype=int).reshape(
            -1, 4
        )
        return cls(columns[:, 0], columns[:, 1], columns[:, 2], columns[:, 3], most)


def piece_kinds(offer: Offer, capacities: Sequence[Capacity], candidates: Candidates) -> PieceKinds:
    pools, apart = offer
    pieces = (
        (row, key.gpus, key.cores, key.cores if apart and key.pool.limited else 0)
        for key, row in candidates.rows.items()
        if isinstance(key, PieceRow) and key.pool in pools
    )
    return PieceKinds.of(pieces, Capacity(*(max(each) for each in zip(*capacities, strict=True))))


def best_values(kinds: PieceKinds, row_prices: np.ndarray) -> np.ndarray:
    """F for all (GPUs, cores, limit) up to the capacity's most: the value of the best pattern of such a node."""
    return table_of(kinds, row_prices)[0]


def table_of(kinds: PieceKinds, row_prices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """F and the choice behind each entry, for all (G, C, limit) up to the largest class."""
    most = kinds.most
    cores, limit = np.arange(most.cores + 1)[:, None], np.arange(most.limit + 1)[None, :]
    value = np.zeros((most.gpus + 1, most.cores + 1, most.limit + 1))
    choice = np.full(value.shape, SKIP)
    prices = row_prices[kinds.rows]
    for gpus in range(1, most.gpus + 1):
        value[gpus] = value[gpus - 1]
        usable = np.flatnonzero((kinds.gpus <= gpus) & (prices > 1e-12))
        if not len(usable):
            continue
        left = cores[None] - kinds.cores[usable][:, None, None]
        kept = limit[None] - kinds.limited[usable][:, None, None]
        before = value[(gpus - kinds.gpus[usable])[:, None, None], np.maximum(left, 0), np.maximum(kept, 0)]
        with_piece = np.where((left < 0) | (kept < 0), -1.0, before + prices[usable][:, None, None])
        first = with_piece.argmax(axis=0)
        gain = np.take_along_axis(with_piece, first[None], axis=0)[0]
        better = gain > value[gpus] + 1e-12
        value[gpus] = np.where(better, gain, value[gpus])
        choice[gpus] = np.where(better, usable[first], SKIP)
    return value, choice


def traced(kinds: PieceKinds, choice: np.ndarray, capacity: Capacity) -> tuple[tuple[int, int], ...]:
    gpus, cores, limit = capacity
    taken: dict[int, int] = {}
    while gpus > 0:
        k = int(choice[gpus, cores, limit])
        if k == SKIP:
            gpus -= 1
            continue
        row = int(kinds.rows[k])
        taken[row] = taken.get(row, 0) + 1
        gpus, cores, limit = (
            gpus - int(kinds.gpus[k]),
            cores - int(kinds.cores[k]),
            limit - int(kinds.limited[k]),
        )
    return tuple(sorted(taken.items()))


def all_patterns(kinds: PieceKinds, capacity: Capacity, most: int) -> set[tuple[tuple[int, int], ...]]:
    """The patterns of a node to which nothing can be added; stops once there are `most`."""
    columns = (kinds.rows, kinds.gpus, kinds.cores, kinds.limited)
    pieces = [tuple(map(int, piece)) for piece in zip(*columns, strict=True)]
    pieces = [
        piece
        for piece in pieces
        if piece[1] <= capacity.gpus and piece[2] <= capacity.cores and piece[3] <= capacity.limit
    ]
    if len(pieces) * capacity.gpus <= MOST_TO_LIST:
        listing = _Listing(pieces, most)
        listing.extend(0, capacity, ())
        if listing.steps <= STEPS:
            return listing.found
    return {((SKIP, k),) for k in range(most)}  # too many to list: said by reaching `most`


class _Listing:
    """All patterns of these pieces (row, GPUs, cores, cores of those limited), kind after kind, the most of each first."""

    def __init__(self, pieces: Sequence[tuple[int, ...]], most: int) -> None:
        self._pieces, self._most = pieces, most
        self.found: set[tuple[tuple[int, int], ...]] = set()
        self.steps = 0

    def extend(self, start: int, left: Capacity, taken: tuple[tuple[int, int], ...]) -> None:
        """Go on from the kind at `start` with the rest."""
        self.steps += 1
        if len(self.found) >= self._most or self.steps > STEPS:
            return
        gpus, cores, limit = left
        if start == len(self._pieces):
            if taken and not any(g <= gpus and k <= cores and kept <= limit for _, g, k, kept in self._pieces):
                self.found.add(tuple(sorted(taken)))
            return
        row, g, k, kept = self._pieces[start]
        times_most = min(gpus // g, cores // k if k else gpus, limit // kept if kept else gpus)
        for times in range(times_most, -1, -1):
            with_it = ((*taken, (row, times))) if times else taken
            self.extend(start + 1, Capacity(gpus - times * g, cores - times * k, limit - times * kept), with_it)
