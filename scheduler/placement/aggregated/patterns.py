"""The node side of the aggregated formulation (algorithms.md section 6): what a node of a class can be cut into.

A *pattern* is a multiset of pieces that fits a node's idle GPUs and cores; only those to which no further piece can be
added matter. Up to `ENUMERATED` a class they are listed. Else they are priced: given what a piece is worth, a dynamic
programme over (GPUs, cores) finds the best pattern of every class that offers the same pieces in one table,

    f(G, C) = max( f(G-1, C), max over pieces (g, k): worth + f(G-g, C-k) ),       f(0, C) = 0.

Where some of a class's pieces are for jobs limited to the reserved cores and others not, what is left of those cores
is a third dimension, which the pieces of limited jobs use up as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from scheduler.placement.aggregated.options import PieceRow, UnitRow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from scheduler.placement.aggregated.classes import Classes, ClassKey, NodeClass, Pin, Pool
    from scheduler.placement.aggregated.options import Options

ENUMERATED = 2_000
ENUMERATED_IN_ALL = 6_000
MOST_TO_LIST, STEPS = 160, 20_000
"""Kinds of pieces times GPUs, and steps of the listing, above which it is given up: such a class has too many."""
SKIP = -1
"""In a table of choices: leave one GPU idle."""


class Pattern(NamedTuple):
    """Pieces cut from one node of a class: (row, how many), ascending."""

    of_class: int
    pieces: tuple[tuple[int, int], ...]


class Move(NamedTuple):
    """A piece offered in one row used in another: a larger one for a smaller, or a unit for jobs of several pools."""

    source: int
    target: int


class Room(NamedTuple):
    """What a node of a class has for its patterns. `limit` = cores for pieces of limited jobs; 0 where none needs it."""

    gpus: int
    cores: int
    limit: int


@dataclass(frozen=True, slots=True)
class Menu:
    """The pieces that classes of the same pools offer, as arrays, and the most that any of these classes has.

    `limited`: the cores that a piece takes of those that limited jobs may use; all 0 where that needs no counting.
    """

    rows: np.ndarray
    gpus: np.ndarray
    cores: np.ndarray
    limited: np.ndarray
    most: Room

    @classmethod
    def of(cls, pieces: Iterable[tuple[int, int, int, int]], most: Room) -> Menu:
        """Of pieces (row, GPUs, cores, cores of those limited), the largest first, as far as they fit."""
        fitting = [piece for piece in pieces if piece[1] <= most.gpus and piece[2] <= most.cores]
        columns = np.array(sorted(fitting, key=lambda piece: (-piece[1], -piece[2], piece[0])), dtype=int).reshape(
            -1, 4
        )
        return cls(columns[:, 0], columns[:, 1], columns[:, 2], columns[:, 3], most)


Offer = tuple[tuple["Pool", ...], bool]
"""The pools that a class offers to, and whether the cores of limited jobs are counted apart there."""


class _Way(NamedTuple):
    """One way to use a node of a class: what it offers to which pools, and the rows of running jobs that stay there."""

    offer: Offer
    room: Room
    kept: tuple[int, ...]


def _ways(each: NodeClass, options: Options) -> Iterator[_Way]:
    """With limited jobs alone their cores are all there are: nothing is to be counted apart then."""
    key = each.key
    for pools in each.offers:
        kinds = {pool.limited for pool in pools}
        apart = key.limit < key.cores and len(kinds) > 1
        for kept in _subsets(key, options, pools):
            gpus = key.gpus - sum(pin.gpus for _, pin in kept)
            cores = key.cores - sum(pin.cores for _, pin in kept)
            limit = key.limit - sum(pin.cores for _, pin in kept if pin.limited)
            if gpus < 0 or cores < 0 or limit < 0:
                continue
            room = Room(gpus, min(cores, limit) if kinds == {True} else cores, min(cores, limit) if apart else 0)
            yield _Way((pools, apart), room, tuple(sorted(row for row, _ in kept)))


def _subsets(key: ClassKey, options: Options, pools: Sequence[Pool]) -> Iterator[tuple[tuple[int, Pin], ...]]:
    """Which of the running jobs on the node stay: any, but on a node that takes one tenant at a time that one's only."""
    owner = next((pool.tenant for pool in pools), None)
    here = [
        (row, pin)
        for pin in key.pins
        if (row := options.rows.get(PieceRow(pin.pool, pin.gpus, pin.cores))) is not None
        and (key.owner is None or owner in {None, pin.tenant})
    ]
    for size in range(len(here) + 1):
        yield from combinations(here, size)


class Supply:
    """The classes' patterns for the rows that a stage's options need. Once `late` says so they are no longer listed."""

    def __init__(self, classes: Classes, options: Options, late: Callable[[], bool] = lambda: False) -> None:
        self.classes = classes.all
        self.types = [
            key.pool.gpu_type if isinstance(key, PieceRow) else key.pools[0].gpu_type for key in options.rows
        ]  # the GPU type of each row
        self.counts = np.array([len(each.nodes) for each in self.classes], dtype=float)
        self._ways = [list(_ways(each, options)) for each in self.classes]
        rooms: dict[Offer, list[Room]] = {}
        for way in (way for ways in self._ways for way in ways):
            rooms.setdefault(way.offer, []).append(way.room)
        self._menus = {offer: _menu(offer, own, options) for offer, own in rooms.items()}
        self.listed, self.complete = self._enumerated(late)
        self.moves = list(_moves(options, within_pools=not self.complete))
        self._targets = _targets(self.moves)
        served = {row: k for k, (row, _) in enumerate(self._targets)}
        # From the largest pieces on: a piece that was moved may be moved again.
        self.move_order = sorted(range(len(self.moves)), key=lambda k: -served[self.moves[k].source])

    def fits(self, pattern: Pattern) -> bool:
        """Whether the running jobs whose rows these are can all stay on the class's node."""
        return any(way.kept == tuple(row for row, _ in pattern.pieces) for way in self._ways[pattern.of_class])

    def priced(self, worth: np.ndarray, least: np.ndarray) -> tuple[np.ndarray, list[Pattern]]:
        """The worth of each class's best pattern, and those patterns that are worth more than `least` of their class."""
        tables = {offer: _table(menu, worth) for offer, menu in self._menus.items()}
        best = np.zeros(len(self.classes))
        found: list[Pattern] = []
        for k, ways in enumerate(self._ways):
            values = [float(tables[way.offer][0][way.room] + worth[list(way.kept)].sum()) for way in ways]
            first = max(range(len(ways)), key=values.__getitem__)
            way, best[k] = ways[first], values[first]
            if best[k] > least[k] + 1e-7:
                rest = _traced(self._menus[way.offer], tables[way.offer][1], way.room)
                found.append(Pattern(k, tuple(sorted((*rest, *((row, 1) for row in way.kept))))))
        return best, found

    def consistent(self, worth: np.ndarray) -> np.ndarray:
        """The same prices, raised where a piece would be worth less than what it can be used as: a bound needs that."""
        raised: np.ndarray = np.maximum(worth, 0.0)
        for source, targets in self._targets:
            raised[source] = max(raised[source], float(raised[targets].max()))
        return raised

    def _enumerated(self, late: Callable[[], bool]) -> tuple[list[Pattern], bool]:
        """All patterns of all classes, and True; nothing, and False, when a class has more than `ENUMERATED` or it is late."""
        found: list[Pattern] = []
        for k, ways in enumerate(self._ways):
            if late():
                return [], False
            own: set[tuple[tuple[int, int], ...]] = set()
            most = min(ENUMERATED, ENUMERATED_IN_ALL - len(found))
            for way in ways:
                rest = _all_patterns(self._menus[way.offer], way.room, most - len(own)) or {()}
                own |= {tuple(sorted((*pieces, *((row, 1) for row in way.kept)))) for pieces in rest}
                if len(own) >= most:
                    return [], False
            own.discard(())
            found += [Pattern(k, pieces) for pieces in sorted(own)]
        return found, True


def _menu(offer: Offer, rooms: Sequence[Room], options: Options) -> Menu:
    pools, apart = offer
    pieces = (
        (row, key.gpus, key.cores, key.cores if apart and key.pool.limited else 0)
        for key, row in options.rows.items()
        if isinstance(key, PieceRow) and key.pool in pools
    )
    return Menu.of(pieces, Room(*(max(each) for each in zip(*rooms, strict=True))))


def best_values(menu: Menu, worth: np.ndarray) -> np.ndarray:
    """F for all (GPUs, cores, limit) up to the menu's most: the worth of the best pattern of such a node."""
    return _table(menu, worth)[0]


def _table(menu: Menu, worth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """F and the choice behind each entry, for all (G, C, limit) up to the largest class."""
    most = menu.most
    cores, limit = np.arange(most.cores + 1)[:, None], np.arange(most.limit + 1)[None, :]
    value = np.zeros((most.gpus + 1, most.cores + 1, most.limit + 1))
    choice = np.full(value.shape, SKIP)
    prices = worth[menu.rows]
    for gpus in range(1, most.gpus + 1):
        value[gpus] = value[gpus - 1]
        usable = np.flatnonzero((menu.gpus <= gpus) & (prices > 1e-12))
        if not len(usable):
            continue
        left = cores[None] - menu.cores[usable][:, None, None]
        kept = limit[None] - menu.limited[usable][:, None, None]
        before = value[(gpus - menu.gpus[usable])[:, None, None], np.maximum(left, 0), np.maximum(kept, 0)]
        with_piece = np.where((left < 0) | (kept < 0), -1.0, before + prices[usable][:, None, None])
        first = with_piece.argmax(axis=0)
        gain = np.take_along_axis(with_piece, first[None], axis=0)[0]
        better = gain > value[gpus] + 1e-12
        value[gpus] = np.where(better, gain, value[gpus])
        choice[gpus] = np.where(better, usable[first], SKIP)
    return value, choice


def _traced(menu: Menu, choice: np.ndarray, room: Room) -> tuple[tuple[int, int], ...]:
    gpus, cores, limit = room
    taken: dict[int, int] = {}
    while gpus > 0:
        k = int(choice[gpus, cores, limit])
        if k == SKIP:
            gpus -= 1
            continue
        row = int(menu.rows[k])
        taken[row] = taken.get(row, 0) + 1
        gpus, cores, limit = gpus - int(menu.gpus[k]), cores - int(menu.cores[k]), limit - int(menu.limited[k])
    return tuple(sorted(taken.items()))


def _all_patterns(menu: Menu, room: Room, most: int) -> set[tuple[tuple[int, int], ...]]:
    """The patterns of a node to which nothing can be added; stops once there are `most`."""
    columns = (menu.rows, menu.gpus, menu.cores, menu.limited)
    pieces = [tuple(map(int, piece)) for piece in zip(*columns, strict=True)]
    pieces = [piece for piece in pieces if piece[1] <= room.gpus and piece[2] <= room.cores and piece[3] <= room.limit]
    found: set[tuple[tuple[int, int], ...]] = set()
    steps = 0

    def extend(start: int, left: Room, taken: tuple[tuple[int, int], ...]) -> None:
        nonlocal steps
        steps += 1
        if len(found) >= most or steps > STEPS:
            return
        gpus, cores, limit = left
        if start == len(pieces):
            for _, g, k, kept in pieces:
                if g <= gpus and k <= cores and kept <= limit:
                    return  # something can be added
            if taken:
                found.add(tuple(sorted(taken)))
            return
        row, g, k, kept = pieces[start]
        times_most = min(gpus // g, cores // k if k else gpus, limit // kept if kept else gpus)
        for times in range(times_most, -1, -1):
            with_it = ((*taken, (row, times))) if times else taken
            extend(start + 1, Room(gpus - times * g, cores - times * k, limit - times * kept), with_it)

    if len(pieces) * room.gpus <= MOST_TO_LIST:
        extend(0, room, ())
        if steps <= STEPS:
            return found
    return {((SKIP, k),) for k in range(most)}  # too many to list: said by reaching `most`


def _moves(options: Options, *, within_pools: bool) -> Iterator[Move]:
    """Neighbours only; longer steps are sums of these. From large to small within a pool, then from pools to units.

    Within a pool a move stands for another pattern, which is of use only where patterns are priced one by one.
    """
    by_pool: dict[Pool, dict[tuple[int, int], int]] = {}
    for key, row in options.rows.items():
        if isinstance(key, PieceRow):
            by_pool.setdefault(key.pool, {})[key.gpus, key.cores] = row
    for own in by_pool.values() if within_pools else ():
        for (gpus, cores), row in sorted(own.items()):
            fewer_cores = max(((g, k) for g, k in own if g == gpus and k < cores), default=None)
            fewer_gpus = max(((g, k) for g, k in own if g < gpus and k <= cores), default=None)
            yield from (Move(row, own[small]) for small in (fewer_cores, fewer_gpus) if small is not None)
    for key, row in options.rows.items():
        if isinstance(key, UnitRow):
            yield from (Move(options.rows[PieceRow(pool, 1, key.cores)], row) for pool in key.pools)


def _targets(moves: Sequence[Move]) -> list[tuple[int, np.ndarray]]:
    """Sources with what they serve, such that a source comes after the sources it serves."""
    grouped: dict[int, list[int]] = {}
    for move in moves:
        grouped.setdefault(move.source, []).append(move.target)
    done: dict[int, None] = {}

    def visit(row: int) -> None:
        for target in grouped.get(row, ()):
            if target not in done:
                visit(target)
        done.setdefault(row)

    for row in grouped:
        visit(row)
    return [(row, np.array(grouped[row])) for row in done if row in grouped]
