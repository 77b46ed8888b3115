"""Bound and columns of the aggregated formulation by column generation (algorithms.md section 6).

The master program holds some candidates and patterns; its duals price the rows, the best candidates and patterns under these
prices join it, until none has more value than it costs. At any prices p >= 0 the Lagrangian

    sum over groups: size * max(0, max over candidates: value - need * p)  +  sum over classes: nodes * best pattern at p
    (+ what quotas and cuts cost)

bounds every plan, so the bound stands even when time ends the search. On a long queue the prices of every n-th group on
an n-th of the nodes are nearly the prices of all: they are found first, and choose the columns the master starts with.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from scheduler.placement.matrix import Columns, Matrix, Relaxation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from scheduler.placement.aggregated.candidates import Candidates
    from scheduler.placement.aggregated.patterns import Move, Pattern, Supply

SAMPLED_GROUPS = 350
"""A queue is sampled down to about as many groups for its first prices, when it has over twice as many."""
PER_GROUP = 4
"""Candidates per group that the master begins with, on average."""
NEAR = 0.1
"""An improving candidate joins when it comes this near to its group's best, relative to that one's gain."""


@dataclass(frozen=True, slots=True)
class Cap:
    """At most `upper` of the candidates' weighted sum: a tenant's quota, or a cut for memory."""

    candidates: np.ndarray
    weights: np.ndarray
    upper: float

    def weight_of(self, candidate: int) -> float:
        """The candidate's weight; `candidates` ascend."""
        at = int(np.searchsorted(self.candidates, candidate))
        return float(self.weights[at]) if at < len(self.candidates) and self.candidates[at] == candidate else 0.0


@dataclass(slots=True)
class Problem:
    """The program to maximise: candidates, supply, caps, and the number of each group and class."""

    candidates: Candidates
    supply: Supply
    caps: list[Cap]
    members: np.ndarray
    nodes: np.ndarray
    listed: list[Pattern] = field(default_factory=list)  # patterns known from the start
    complete: bool = False  # they are all there are: nothing to price
    cut: bool = False  # caps hold more than quotas: bounds found now are not those of all plans

    @property
    def first_row(self) -> int:
        """Rows: groups, then the candidates' rows, then classes, then caps."""
        return len(self.members)

    @property
    def first_class(self) -> int:
        return self.first_row + len(self.candidates.rows)

    @property
    def first_cap(self) -> int:
        return self.first_class + len(self.nodes)

    @property
    def row_upper(self) -> np.ndarray:
        free = np.zeros(len(self.candidates.rows))
        return np.concatenate((self.members, free, self.nodes, np.array([cap.upper for cap in self.caps])))

    def candidate_columns(self, chosen: np.ndarray) -> Matrix:
        capped = self._capped(chosen)
        groups, rows = self.candidates.group[chosen], self.first_row + self.candidates.row[chosen]
        index = [np.stack((groups, rows), axis=1)]
        value = [np.stack((np.ones(len(chosen)), self.candidates.need[chosen]), axis=1)]
        lengths = np.full(len(chosen), 2)
        order = np.repeat(np.arange(len(chosen)), 2)
        flat_index, flat_value = index[0].ravel(), value[0].ravel()
        for row, (columns, weights) in enumerate(capped, start=self.first_cap):
            order = np.concatenate((order, columns))
            flat_index = np.concatenate((flat_index, np.full(len(columns), row)))
            flat_value = np.concatenate((flat_value, weights))
            lengths[columns] += 1
        place = np.argsort(order, kind="stable")
        return Matrix(
            self.candidates.value[chosen],
            self.members[groups],
            np.ones(len(chosen), dtype=bool),
            self.row_upper,
            np.concatenate(([0], np.cumsum(lengths))),
            flat_index[place],
            flat_value[place],
        )

    def _capped(self, chosen: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        where = np.full(len(self.candidates.group), -1)
        where[chosen] = np.arange(len(chosen))
        found = []
        for cap in self.caps:
            here = where[cap.candidates]
            found.append((here[here >= 0], cap.weights[here >= 0]))
        return found

    @property
    def moves(self) -> Sequence[Move]:
        """The moves there are. Where every pattern is listed none is needed but those into units of several pools."""
        return self.supply.moves

    def reduced_cost(self, pattern: Pattern, prices: np.ndarray) -> float:
        """The pattern's reduced cost: its pieces at these prices, less the price of a node of its class."""
        pieces = sum(times * float(prices[self.first_row + row]) for row, times in pattern.pieces)
        return pieces - float(prices[self.first_class + pattern.of_class])

    def supply_columns(self, patterns: Sequence[Pattern], moves: Iterable[int] = ()) -> Matrix:
        """The columns of these moves, then of these patterns."""
        columns = Columns()
        for move in (self.moves[k] for k in moves):
            columns.add(0.0, math.inf, ((self.first_row + move.source, 1.0), (self.first_row + move.target, -1.0)))
        for pattern in patterns:
            k = pattern.of_class
            offered = ((self.first_row + row, -float(times)) for row, times in pattern.pieces)
            columns.add(0.0, float(self.nodes[k]), ((self.first_class + k, 1.0), *offered))
        return columns.matrix(self.row_upper)

    def surplus(self, prices: np.ndarray) -> np.ndarray:
        """The value of each candidate beyond the prices of its row and caps; the group's own price is not taken off."""
        found: np.ndarray = self.candidates.value - self.candidates.need * prices[self.first_row + self.candidates.row]
        for row, cap in enumerate(self.caps, start=self.first_cap):
            np.subtract.at(found, cap.candidates, cap.weights * prices[row])
        return found

    def sample(self, every: int) -> Problem:
        """Every n-th group on an n-th of the nodes, with caps in proportion."""
        members = np.where(np.arange(len(self.members)) % every == 0, self.members, 0.0)
        caps = [Cap(cap.candidates, cap.weights, cap.upper / every) for cap in self.caps]
        return Problem(self.candidates, self.supply, caps, members, self.nodes / every, self.listed, self.complete)


@dataclass(slots=True)
class Priced:
    """Where column generation ended: bound, prices, the candidates and patterns in the master and its solution."""

    bound: float
    prices: np.ndarray
    candidates: np.ndarray
    patterns: list[Pattern]
    values: np.ndarray  # candidates, moves, patterns
    converged: bool


def price(
    problem: Problem,
    *,
    remaining_s: Callable[[], float],
    tolerance: float,
    seed: int,
    start: Sequence[Pattern] = (),
    first: Guess | None = None,
) -> Priced | None:
    """Prices and columns until bound and master agree within `tolerance`, relatively; None when time ended before any.

    `start`: patterns to begin with; `first`: prices near those sought, if any are known.
    """
    groups = int(np.count_nonzero(problem.members))
    if first is None and groups > 2 * SAMPLED_GROUPS:
        sampled = problem.sample(-(-groups // SAMPLED_GROUPS))
        priced = price(sampled, remaining_s=remaining_s, tolerance=max(tolerance, 1e-3), seed=seed, start=start)
        if priced is None:
            return None
        first = Guess(priced.prices, priced.patterns)
    return _Generation(problem, first, start, seed).run(remaining_s, tolerance)


@dataclass(frozen=True, slots=True)
class Guess:
    """Prices of all rows, near those sought, and patterns that are good at them."""

    prices: np.ndarray
    patterns: list[Pattern]


def guess(problem: Problem, pieces: np.ndarray, quotas: np.ndarray) -> Guess:
    """The same for all rows, from prices of the candidates' rows and of quotas."""
    prices = np.zeros(len(problem.row_upper))
    prices[problem.first_row : problem.first_class] = pieces
    prices[problem.first_cap :] = quotas
    prices[: problem.first_row] = _best_of_groups(problem.surplus(prices), problem)
    classes = slice(problem.first_class, problem.first_cap)
    prices[classes], patterns = problem.supply.priced(pieces, np.zeros(len(problem.nodes)))
    return Guess(prices, patterns)


class _Generation:
    """One run: the master with its columns, in the order candidates, moves, patterns (as the solver's blocks came)."""

    def __init__(self, problem: Problem, first: Guess | None, start: Sequence[Pattern], seed: int) -> None:
        self.problem = problem
        self.patterns = list(dict.fromkeys((*problem.listed, *start, *(first.patterns if first else ()))))
        self.known = set(self.patterns)
        in_play = problem.members[problem.candidates.group] > 0
        if first is not None:
            in_play &= self._promising(first.prices)
        self.inside = in_play
        chosen = np.flatnonzero(in_play)
        self.blocks: list[tuple[str, np.ndarray]] = []
        self.relaxation = Relaxation(problem.candidate_columns(chosen), seed)
        self.blocks.append(("candidates", chosen))
        moves = np.arange(len(problem.moves))
        self.relaxation.add(problem.supply_columns(self.patterns, moves))
        self.blocks += [("moves", moves), ("patterns", np.arange(len(self.patterns)))]

    def _promising(self, prices: np.ndarray) -> np.ndarray:
        """The candidates nearest to being a group's best under prices found on a sample; each group keeps its best."""
        problem = self.problem
        surplus = problem.surplus(prices)
        best = _best_of_groups(surplus, problem)
        behind = best[problem.candidates.group] - surplus
        count = min(len(behind), PER_GROUP * len(problem.members))
        promising: np.ndarray = behind <= np.partition(behind, count - 1)[count - 1] if count else behind <= 0
        return promising

    def run(self, remaining_s: Callable[[], float], tolerance: float) -> Priced | None:
        best: Priced | None = None
        while True:
            solution = self.relaxation.solve(remaining_s())
            if not solution.optimal:
                return best
            bound, prices, candidates, patterns = self._improving(solution.prices)
            if best is None or bound < best.bound:
                best = self._priced(bound, prices, solution.values)
            else:
                best = self._priced(best.bound, best.prices, solution.values)
            enough = best.bound - solution.objective <= tolerance * max(solution.objective, 1e-12)
            if enough or (not len(candidates) and not patterns):
                best.converged = True
                return best
            if remaining_s() <= 0:
                return best
            self._add(candidates, patterns)

    def _improving(self, duals: np.ndarray) -> tuple[float, np.ndarray, np.ndarray, list[Pattern]]:
        """The Lagrangian bound at these duals, made consistent; and the columns that are worth more than they cost."""
        problem = self.problem
        prices = duals.copy()
        rows = slice(problem.first_row, problem.first_class)
        prices[rows] = problem.supply.consistent(duals[rows])
        surplus = problem.surplus(prices)
        best = _best_of_groups(surplus, problem)
        classes = slice(problem.first_class, problem.first_cap)
        best_patterns, patterns = problem.supply.priced(prices[rows], duals[classes])
        prices[: problem.first_row], prices[classes] = best, best_patterns
        bound = float(problem.members @ best + problem.nodes @ best_patterns)
        bound += sum(cap.upper * prices[row] for row, cap in enumerate(problem.caps, start=problem.first_cap))
        group = problem.candidates.group
        better = (surplus > duals[group] + 1e-7) & ~self.inside & (problem.members[group] > 0)
        better &= surplus > best[group] - NEAR * (best[group] - duals[group])
        return bound, prices, np.flatnonzero(better), [each for each in patterns if each not in self.known]

    def _add(self, candidates: np.ndarray, patterns: list[Pattern]) -> None:
        if len(candidates):
            self.relaxation.add(self.problem.candidate_columns(candidates))
            self.blocks.append(("candidates", candidates))
            self.inside[candidates] = True
        if patterns:
            self.relaxation.add(self.problem.supply_columns(patterns))
            self.blocks.append(("patterns", np.arange(len(self.patterns), len(self.patterns) + len(patterns))))
            self.patterns += patterns
            self.known.update(patterns)

    def _priced(self, bound: float, prices: np.ndarray, values: np.ndarray) -> Priced:
        parts: dict[str, list[np.ndarray]] = {"candidates": [], "moves": [], "patterns": []}
        chosen: list[np.ndarray] = []
        begin = 0
        for kind, numbers in self.blocks:
            parts[kind].append(values[begin : begin + len(numbers)])
            begin += len(numbers)
            if kind == "candidates":
                chosen.append(numbers)
        ordered = np.concatenate([part for kind in ("candidates", "moves", "patterns") for part in parts[kind]])
        return Priced(bound, prices, np.concatenate(chosen), list(self.patterns), ordered, converged=False)


def _best_of_groups(surplus: np.ndarray, problem: Problem) -> np.ndarray:
    best = np.zeros(len(problem.members))
    np.maximum.at(best, problem.candidates.group, surplus)
    return best
