"""The worth of an idle part of a GPU: prices of gaps, from packing the workload's parts of GPUs as well as can be.

Gilmore and Gomory's linear program of the cutting stock problem (1961): cover the expected numbers of each part of a GPU
by the fewest GPUs. Its dual prices are the worth of a part in GPUs (nothing for a part that others' leavings serve), and
`worth[r]` is the most that parts fitting together into r idle thousandths are worth. A placement that
lowers the worth of a gap by more than another GPU's wastes that much of a GPU in the long run (bid prices, as in
Gupta and Radovanovic, "Interior-Point-Based Online Stochastic Bin Packing", 2020).
"""

from __future__ import annotations

from functools import reduce
from math import gcd, inf
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from scheduler.model.placements import WHOLE
from scheduler.placement.matrix import Columns, Matrix, Relaxation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


Floats = NDArray[np.float64]

ENOUGH = 1e-6
"""Prices are final when no pattern is worth more than one GPU by more than this."""
ROUNDS, LIMIT_S = 500, 10.0
"""The most patterns added, and seconds a solve: never reached on real mixes; prices are then near, not final."""


def gap_worth(parts: Mapping[int, float]) -> Floats:
    """Worth of 0..1000 idle thousandths of a GPU, in GPUs; `parts`: thousandths asked (1-999) -> how many are expected.

    Without parts nothing but the whole GPU is worth anything.
    """
    sizes = sorted(size for size, count in parts.items() if count > 0)
    if not sizes:
        return np.append(np.zeros(WHOLE), 1.0)
    unit = reduce(gcd, sizes, WHOLE)
    cells = [size // unit for size in sizes]
    worth = _prices_worth(cells, [parts[size] for size in sizes], WHOLE // unit)
    # Rounded, so that gaps of equal worth are equal however exactly the program was solved.
    return np.repeat(np.round(worth, 6), unit)[: WHOLE + 1]


def _prices_worth(cells: Sequence[int], counts: Sequence[float], whole: int) -> Floats:
    """Column generation: prices of the patterns so far, the best pattern at these prices, until none is worth more."""
    total = sum(counts)
    needed = -np.array(counts) / total
    patterns = [[whole // cell if n == m else 0 for n in range(len(cells))] for m, cell in enumerate(cells)]
    program = Relaxation(_columns(patterns, needed), seed=0)
    worth = np.zeros(whole + 1)
    for _ in range(ROUNDS):
        prices = program.solve(LIMIT_S).prices
        worth, best = _knapsack(cells, prices, whole)
        if worth[whole] <= 1 + ENOUGH:
            break
        program.add(_columns([best], needed))
    return worth


def _columns(patterns: Sequence[Sequence[int]], needed: Floats) -> Matrix:
    columns = Columns()
    for pattern in patterns:
        columns.add(-1.0, inf, ((row, -float(times)) for row, times in enumerate(pattern) if times))
    return columns.matrix(needed)


def _knapsack(cells: Sequence[int], prices: Floats, whole: int) -> tuple[Floats, list[int]]:
    """The most that fits into each number of cells is worth, and the pattern that is worth most in all of them."""
    worth, chosen = np.zeros(whole + 1), np.full(whole + 1, -1)
    for cell in range(1, whole + 1):
        worth[cell], chosen[cell] = worth[cell - 1], -1
        for part, (size, price) in enumerate(zip(cells, prices, strict=True)):
            if size <= cell and worth[cell - size] + price > worth[cell] + 1e-12:
                worth[cell], chosen[cell] = worth[cell - size] + price, part
    pattern, left = [0] * len(cells), whole
    while left > 0:
        part = chosen[left]
        if part >= 0:
            pattern[part] += 1
        left -= cells[part] if part >= 0 else 1
    return worth, pattern
