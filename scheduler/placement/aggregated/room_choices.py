"""The pieces that fit in the room of one node: the best and all combinations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from scheduler.placement.aggregated.options import PieceRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scheduler.placement.aggregated.classes import Pool
    from scheduler.placement.aggregated.options import Options


Offer = tuple[tuple["Pool", ...], bool]
"""The pools that a class offers to, and whether the cores of limited jobs are counted apart there."""

MOST_TO_LIST, STEPS = 160, 20_000
"""Kinds of pieces times GPUs, and steps of the listing, above which it is given up: such a class has too many."""

SKIP = -1
"""In a table of choices: leave one GPU idle."""


class Room(NamedTuple):
    """The room of a class's node for patterns. `limit` = cores for pieces of limited jobs; 0 where none needs it."""

    gpus: int
    cores: int
    limit: int


@dataclass(frozen=True, slots=True)
class RoomChoices:
    """The pieces that classes of the same pools offer, as arrays, and the most that any of these classes has.

    `limited`: the cores that a piece takes of those that limited jobs may use; all 0 where that needs no counting.
    """

    rows: np.ndarray
    gpus: np.ndarray
    cores: np.ndarray
    limited: np.ndarray
    most: Room

    @classmethod
    def of(cls, pieces: Iterable[tuple[int, int, int, int]], most: Room) -> RoomChoices:
        """Make them from pieces (row, GPUs, cores, cores of those limited), the largest first, as far as they fit."""
        fitting = [piece for piece in pieces if piece[1] <= most.gpus and piece[2] <= most.cores]
        columns = np.array(sorted(fitting, key=lambda piece: (-piece[1], -piece[2], piece[0])), dtype=int).reshape(
            -1, 4
        )
        return cls(columns[:, 0], columns[:, 1], columns[:, 2], columns[:, 3], most)


def menu_of(offer: Offer, rooms: Sequence[Room], options: Options) -> RoomChoices:
    pools, apart = offer
    pieces = (
        (row, key.gpus, key.cores, key.cores if apart and key.pool.limited else 0)
        for key, row in options.rows.items()
        if isinstance(key, PieceRow) and key.pool in pools
    )
    return RoomChoices.of(pieces, Room(*(max(each) for each in zip(*rooms, strict=True))))


def best_values(room_choices: RoomChoices, row_prices: np.ndarray) -> np.ndarray:
    """F for all (GPUs, cores, limit) up to the room's most: the value of the best pattern of such a node."""
    return table_of(room_choices, row_prices)[0]


def table_of(room_choices: RoomChoices, row_prices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """F and the choice behind each entry, for all (G, C, limit) up to the largest class."""
    most = room_choices.most
    cores, limit = np.arange(most.cores + 1)[:, None], np.arange(most.limit + 1)[None, :]
    value = np.zeros((most.gpus + 1, most.cores + 1, most.limit + 1))
    choice = np.full(value.shape, SKIP)
    prices = row_prices[room_choices.rows]
    for gpus in range(1, most.gpus + 1):
        value[gpus] = value[gpus - 1]
        usable = np.flatnonzero((room_choices.gpus <= gpus) & (prices > 1e-12))
        if not len(usable):
            continue
        left = cores[None] - room_choices.cores[usable][:, None, None]
        kept = limit[None] - room_choices.limited[usable][:, None, None]
        before = value[(gpus - room_choices.gpus[usable])[:, None, None], np.maximum(left, 0), np.maximum(kept, 0)]
        with_piece = np.where((left < 0) | (kept < 0), -1.0, before + prices[usable][:, None, None])
        first = with_piece.argmax(axis=0)
        gain = np.take_along_axis(with_piece, first[None], axis=0)[0]
        better = gain > value[gpus] + 1e-12
        value[gpus] = np.where(better, gain, value[gpus])
        choice[gpus] = np.where(better, usable[first], SKIP)
    return value, choice


def traced(room_choices: RoomChoices, choice: np.ndarray, room: Room) -> tuple[tuple[int, int], ...]:
    gpus, cores, limit = room
    taken: dict[int, int] = {}
    while gpus > 0:
        k = int(choice[gpus, cores, limit])
        if k == SKIP:
            gpus -= 1
            continue
        row = int(room_choices.rows[k])
        taken[row] = taken.get(row, 0) + 1
        gpus, cores, limit = (
            gpus - int(room_choices.gpus[k]),
            cores - int(room_choices.cores[k]),
            limit - int(room_choices.limited[k]),
        )
    return tuple(sorted(taken.items()))


def all_patterns(room_choices: RoomChoices, room: Room, most: int) -> set[tuple[tuple[int, int], ...]]:
    """The patterns of a node to which nothing can be added; stops once there are `most`."""
    columns = (room_choices.rows, room_choices.gpus, room_choices.cores, room_choices.limited)
    pieces = [tuple(map(int, piece)) for piece in zip(*columns, strict=True)]
    pieces = [piece for piece in pieces if piece[1] <= room.gpus and piece[2] <= room.cores and piece[3] <= room.limit]
    if len(pieces) * room.gpus <= MOST_TO_LIST:
        listing = _Listing(pieces, most)
        listing.extend(0, room, ())
        if listing.steps <= STEPS:
            return listing.found
    return {((SKIP, k),) for k in range(most)}  # too many to list: said by reaching `most`


class _Listing:
    """All patterns of these pieces (row, GPUs, cores, cores of those limited), kind after kind, the most of each first."""

    def __init__(self, pieces: Sequence[tuple[int, ...]], most: int) -> None:
        self._pieces, self._most = pieces, most
        self.found: set[tuple[tuple[int, int], ...]] = set()
        self.steps = 0

    def extend(self, start: int, left: Room, taken: tuple[tuple[int, int], ...]) -> None:
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
            self.extend(start + 1, Room(gpus - times * g, cores - times * k, limit - times * kept), with_it)
