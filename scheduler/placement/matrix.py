"""Linear programs as arrays, column by column, solved by HiGHS: relaxations that are solved again, and whole programs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scheduler.placement.solver import highs_options


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


PRESOLVE_MATRIX = 20_000
"""The same for aggregated programs, where presolve finds much: a dive leaves most rows with nothing to give."""


PROVING = {
    "mip_heuristic_run_rins": False,
    "mip_heuristic_run_rens": False,
    "mip_heuristic_run_root_reduced_cost": False,
}
"""For programs that hold every pattern, where dives found nearly the best plan: searches within the search take half the
time there and find nothing; elsewhere they find the plans."""

PROGRESS = 0.05
"""A smaller part of a search's gap is no progress."""


@dataclass(frozen=True, slots=True)
class Relaxed:
    """The solution of an LP. `optimal` false = the limit came first, and the rest is of no use."""

    optimal: bool
    objective: float
    values: np.ndarray
    prices: np.ndarray  # duals of the rows, >= 0


class Relaxation:
    """A linear program that grows by columns and is solved again from where it stood."""

    def __init__(self, matrix: Matrix, seed: int) -> None:
        import highspy

        self._highspy = highspy
        self._highs = highspy.Highs()
        for name, value in {"output_flag": False, "threads": 1, "presolve": "off", "random_seed": seed}.items():
            self._highs.setOptionValue(name, value)
        self._highs.passModel(_columnwise(highspy, matrix, whole=False))

    def add(self, matrix: Matrix) -> None:
        """Append the columns of a program over the same rows."""
        if matrix.columns:
            counts = (matrix.columns, matrix.cost, np.zeros(matrix.columns), _finite(self._highspy, matrix.upper))
            entries = (matrix.starts[:-1].astype(np.int32), matrix.index.astype(np.int32), matrix.value)
            self._highs.addCols(*counts, len(matrix.index), *entries)
            # New columns keep the basis feasible, which suits the primal simplex.
            self._highs.setOptionValue("simplex_strategy", 4)

    def solve(self, time_limit_s: float) -> Relaxed:
        # The solver's limit counts from its first run on.
        self._highs.setOptionValue("time_limit", self._highs.getRunTime() + max(0.001, time_limit_s))
        self._highs.run()
        solution = self._highs.getSolution()
        optimal = self._highs.getModelStatus() == self._highspy.HighsModelStatus.kOptimal
        prices = np.maximum(0.0, np.array(solution.row_dual))
        return Relaxed(optimal, self._highs.getInfo().objective_function_value, np.array(solution.col_value), prices)


def solve_matrix(
    matrix: Matrix,
    *,
    gap: float,
    time_limit_s: float,
    seed: int,
    start: np.ndarray | None = None,
    enough: float | None = None,
    patience: int | None = None,
    proving: bool = False,
) -> tuple[np.ndarray | None, float | None]:
    """Whole values of the columns (None = none found) and the proven bound (None = none).

    `start`: a feasible x to begin from; `enough`: the objective at which to stop; `patience`: see `_Patience`;
    `proving`: see `PROVING`.
    """
    import highspy

    limits = {"mip_rel_gap": gap, "time_limit": max(0.001, time_limit_s)}
    highs = _set_up(highspy, matrix, {**limits, **highs_options(seed), **(PROVING if proving else {})})
    if enough is not None:
        highs.setOptionValue("objective_target", enough)
    if start is not None:
        solution = highspy.HighsSolution()
        solution.col_value = start
        highs.setSolution(solution)
    if patience is not None:
        highs.cbMipInterrupt.subscribe(_Patience(patience))
    highs.run()
    return _found(highs)


def _found(highs: Any) -> tuple[np.ndarray | None, float | None]:
    info = highs.getInfo()
    bound = info.mip_dual_bound if math.isfinite(info.mip_dual_bound) else None
    values = np.array(highs.getSolution().col_value)
    if not math.isfinite(info.objective_function_value) or not len(values):
        return None, bound
    return np.round(values), bound


def _set_up(highspy: Any, matrix: Matrix, options: Mapping[str, float]) -> Any:
    highs = highspy.Highs()
    # The feasibility jump looks at no limit, and dives find better plans.
    # Groups and classes leave no symmetry to look for; cuts that bind no longer are dropped sooner: a tenth of the time.
    lean = {"mip_heuristic_run_feasibility_jump": False, "mip_detect_symmetry": False, "mip_lp_age_limit": 5}
    fixed = {"output_flag": False, "threads": 1, **lean}
    for name, value in {**fixed, **options}.items():
        highs.setOptionValue(name, value)
    if matrix.columns > PRESOLVE_MATRIX:
        highs.setOptionValue("presolve", "off")
    highs.passModel(_columnwise(highspy, matrix, whole=True))
    return highs


class _Patience:
    """Stops a search whose gap was not lessened by `PROGRESS` of itself for `looks` looks.

    The solver looks up after each round of cuts and each node: a count that is the same each time, as no clock is.
    """

    def __init__(self, looks: int) -> None:
        self._looks, self._since, self._gap = looks, 0, math.inf

    def __call__(self, event: Any) -> None:
        gap = event.data_out.mip_dual_bound - event.data_out.mip_primal_bound
        self._since += 1
        if not math.isfinite(gap) or gap < (1.0 - PROGRESS) * self._gap:
            self._gap, self._since = gap, 0
        elif self._since >= self._looks:
            event.interrupt()


def _finite(highspy: Any, upper: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(upper), upper, highspy.kHighsInf)


def _columnwise(highspy: Any, matrix: Matrix, *, whole: bool) -> Any:
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = matrix.columns, len(matrix.row_upper)
    lp.sense_ = highspy.ObjSense.kMaximize
    lp.col_cost_ = matrix.cost
    lp.col_lower_, lp.col_upper_ = np.zeros(matrix.columns), _finite(highspy, matrix.upper)
    lp.row_lower_, lp.row_upper_ = np.full(len(matrix.row_upper), -highspy.kHighsInf), matrix.row_upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = matrix.starts.astype(np.int32)
    lp.a_matrix_.index_ = matrix.index.astype(np.int32)
    lp.a_matrix_.value_ = matrix.value
    if whole:
        kinds = highspy.HighsVarType
        lp.integrality_ = [kinds.kInteger if each else kinds.kContinuous for each in matrix.whole]
    return lp
