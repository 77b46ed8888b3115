"""A linear program as arrays, column by column, which is how it is handed to the solver."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(slots=True)
class Matrix:
    """max cost * x, A x <= row_upper, 0 <= x <= upper, whole where `whole`. A by columns: starts, index, value."""

    cost: np.ndarray
    upper: np.ndarray
    whole: np.ndarray
    row_upper: np.ndarray
    starts: np.ndarray
    index: np.ndarray
    value: np.ndarray

    @property
    def columns(self) -> int:
        return len(self.cost)

    def activity(self, x: np.ndarray) -> np.ndarray:
        """A x."""
        per_entry = np.repeat(x, np.diff(self.starts)) * self.value
        return np.bincount(self.index, weights=per_entry, minlength=len(self.row_upper))

    def beside(self, other: Matrix, row_upper: np.ndarray) -> Matrix:
        """These columns and those of another program over the same rows, with other bounds on the rows."""
        return Matrix(
            np.concatenate((self.cost, other.cost)),
            np.concatenate((self.upper, other.upper)),
            np.concatenate((self.whole, other.whole)),
            row_upper,
            np.concatenate((self.starts, self.starts[-1] + other.starts[1:])),
            np.concatenate((self.index, other.index)),
            np.concatenate((self.value, other.value)),
        )

    def only(self, columns: np.ndarray) -> Matrix:
        """The program of only these columns, same rows."""
        lengths = np.diff(self.starts)[columns]
        starts = np.concatenate(([0], np.cumsum(lengths)))
        entries = np.repeat(self.starts[columns] - starts[:-1], lengths) + np.arange(starts[-1])
        return Matrix(
            self.cost[columns],
            self.upper[columns],
            self.whole[columns],
            self.row_upper,
            starts,
            self.index[entries],
            self.value[entries],
        )


@dataclass(slots=True)
class Columns:
    """Columns gathered one block after another."""

    cost: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    index: list[int] = field(default_factory=list)
    value: list[float] = field(default_factory=list)

    def add(self, cost: float, upper: float, entries: Iterable[tuple[int, float]]) -> int:
        """Append a column; its number."""
        before = len(self.index)
        for row, value in entries:
            self.index.append(row)
            self.value.append(value)
        self.lengths.append(len(self.index) - before)
        self.cost.append(cost)
        self.upper.append(upper)
        return len(self.cost) - 1

    def matrix(self, row_upper: np.ndarray) -> Matrix:
        """All of them as one program, every column whole."""
        return Matrix(
            np.array(self.cost, dtype=float),
            np.array(self.upper, dtype=float),
            np.ones(len(self.cost), dtype=bool),
            row_upper,
            np.concatenate(([0], np.cumsum(self.lengths, dtype=int))).astype(int),
            np.array(self.index, dtype=int),
            np.array(self.value, dtype=float),
        )
