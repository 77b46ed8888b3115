"""The node side of the aggregated formulation (algorithms.md section 6): the pieces into which a class's node can be cut.

A *pattern* is a multiset of pieces that fits a node's idle GPUs and cores; only those to which no further piece can be added
matter. Up to `ENUMERATED` a class they are listed. Else they are priced: given each piece's price, a dynamic program over (GPUs,
cores) finds the best pattern of every class that offers the same pieces in one table,

    f(G, C) = max( f(G-1, C), max over pieces (g, k): price + f(G-g, C-k) ),       f(0, C) = 0.

Where some of a class's pieces are for jobs limited to the reserved cores and others not, the rest of those cores is a third
dimension, which the pieces of limited jobs use up as well.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from scheduler.placement.aggregated.knapsack import (
    Capacity,
    Offer,
    all_patterns,
    piece_kinds,
    table_of,
    traced,
)
from scheduler.placement.aggregated.skeletons import PieceRow, SharedRow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from scheduler.placement.aggregated.candidates import Candidates
    from scheduler.placement.aggregated.classes import Classes, ClassKey, NodeClass, Pin, Pool

ENUMERATED = 2_000
ENUMERATED_IN_ALL = 6_000


class Pattern(NamedTuple):
    """Pieces cut from one node of a class: (row, how many), ascending."""

    of_class: int
    pieces: tuple[tuple[int, int], ...]


class Move(NamedTuple):
    """A piece offered in one row used in another: a larger one for a smaller, or one of a pool for jobs of several pools."""

    source: int
    target: int


class _Way(NamedTuple):
    """One way to use a node of a class: its offer to pools, and the (row, pieces) of running jobs that stay there."""

    offer: Offer
    capacity: Capacity
    kept: tuple[tuple[int, int], ...]


def _ways(each: NodeClass, candidates: Candidates) -> Iterator[_Way]:
    """Where every job is limited, its cores are all there are: nothing is to be counted apart then."""
    key = each.key
    for pools in each.offers:
        kinds = {pool.limited for pool in pools}
        apart = key.limit < key.cores and len(kinds) > 1
        for kept in _subsets(key, candidates, pools):
            gpus = key.gpus - sum(pin.gpus for _, pin in kept)
            cores = key.cores - sum(pin.cores for _, pin in kept)
            limit = key.limit - sum(pin.cores for _, pin in kept if pin.limited)
            if gpus < 0 or cores < 0 or limit < 0:
                continue
            capacity = Capacity(
                gpus, min(cores, limit) if kinds == {True} else cores, min(cores, limit) if apart else 0
            )
            yield _Way((pools, apart), capacity, tuple(sorted((row, pin.units) for row, pin in kept)))


def _subsets(key: ClassKey, candidates: Candidates, pools: Sequence[Pool]) -> Iterator[tuple[tuple[int, Pin], ...]]:
    """Which of the running jobs on the node stay: any, but on a node that takes one tenant at a time that one's only."""
    owner = next((pool.tenant for pool in pools), None)
    here = [
        (row, pin)
        for pin in key.pins
        if (row := candidates.rows.get(PieceRow(pin.pool, *pin.piece))) is not None
        and (key.owner is None or owner in {None, pin.tenant})
    ]
    for size in range(len(here) + 1):
        yield from combinations(here, size)


class Supply:
    """The classes' patterns for the rows that a stage's candidates need. Once `late` says so they are no longer listed."""

    def __init__(self, classes: Classes, candidates: Candidates, late: Callable[[], bool] = lambda: False) -> None:
        self.classes = classes.all
        self.types = [key.pools[0].gpu_type for key in candidates.rows]  # the GPU type of each row
        self.counts = np.array([len(each.nodes) for each in self.classes], dtype=float)
        self._ways = [list(_ways(each, candidates)) for each in self.classes]
        capacities: dict[Offer, list[Capacity]] = {}
        for way in (way for ways in self._ways for way in ways):
            capacities.setdefault(way.offer, []).append(way.capacity)
        self._kinds = {offer: piece_kinds(offer, own, candidates) for offer, own in capacities.items()}
        self.listed, self.complete = self._enumerated(late)
        self.moves = list(_moves(candidates, within_pools=not self.complete))
        self._targets = _targets(self.moves)
        served = {row: k for k, (row, _) in enumerate(self._targets)}
        # From the largest pieces on: a piece that was moved may be moved again.
        self.move_order = sorted(range(len(self.moves)), key=lambda k: -served[self.moves[k].source])

    def fits(self, pattern: Pattern) -> bool:
        """Whether the running jobs whose rows these are can all stay on the class's node."""
        return any(way.kept == pattern.pieces for way in self._ways[pattern.of_class])

    def priced(self, prices: np.ndarray, least: np.ndarray) -> tuple[np.ndarray, list[Pattern]]:
        """The value of each class's best pattern at these prices, and the patterns above `least` of their class."""
        tables = {offer: table_of(kinds, prices) for offer, kinds in self._kinds.items()}
        best = np.zeros(len(self.classes))
        found: list[Pattern] = []
        for k, ways in enumerate(self._ways):
            values = [
                float(tables[way.offer][0][way.capacity] + sum(prices[row] * units for row, units in way.kept))
                for way in ways
            ]
            first = max(range(len(ways)), key=values.__getitem__)
            way, best[k] = ways[first], values[first]
            if best[k] > least[k] + 1e-7:
                rest = traced(self._kinds[way.offer], tables[way.offer][1], way.capacity)
                found.append(Pattern(k, tuple(sorted((*rest, *way.kept)))))
        return best, found

    def consistent(self, prices: np.ndarray) -> np.ndarray:
        """The same prices, raised where a piece would cost less than another that it can be used as: a bound needs that."""
        raised: np.ndarray = np.maximum(prices, 0.0)
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
                rest = all_patterns(self._kinds[way.offer], way.capacity, most - len(own)) or {()}
                own |= {tuple(sorted((*pieces, *way.kept))) for pieces in rest}
                if len(own) >= most:
                    return [], False
            own.discard(())
            found += [Pattern(k, pieces) for pieces in sorted(own)]
        return found, True


def _moves(candidates: Candidates, *, within_pools: bool) -> Iterator[Move]:
    """Neighbours only; longer steps are sums of these. From large to small within a pool, then from pools to units.

    Within a pool a move stands for another pattern, which is of use only where patterns are priced one by one.
    """
    by_pool: dict[Pool, dict[tuple[int, int], int]] = {}
    for key, row in candidates.rows.items():
        if isinstance(key, PieceRow):
            by_pool.setdefault(key.pool, {})[key.gpus, key.cores] = row
    for own in by_pool.values() if within_pools else ():
        for (gpus, cores), row in sorted(own.items()):
            fewer_cores = max(((g, k) for g, k in own if g == gpus and k < cores), default=None)
            fewer_gpus = max(((g, k) for g, k in own if g < gpus and k <= cores), default=None)
            yield from (Move(row, own[small]) for small in (fewer_cores, fewer_gpus) if small is not None)
    for key, row in candidates.rows.items():
        if isinstance(key, SharedRow):
            yield from (Move(candidates.rows[PieceRow(pool, key.gpus, key.cores)], row) for pool in key.pools)


def _targets(moves: Sequence[Move]) -> list[tuple[int, np.ndarray]]:
    """Sources with the rows they serve, such that a source comes after the sources it serves."""
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
