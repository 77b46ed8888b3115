"""Heterogeneity-aware max-min fairness as linear programs (Gavel, OSDI '20, 4.1), levels filled one after another (4.3).

X_mj: the fraction of its time that job m should run on GPUs of type j.

    throughput(m, X) = sum_j T_mj X_mj
    max min_m  scale_m / w_m * throughput(m, X) / throughput(m, X^equal_m)
    s.t. 0 <= X_mj,  sum_j X_mj <= 1 for each job,  sum_m scale_m X_mj <= GPUs of type j

T: the job's throughput on its `scale` GPUs of a type; X^equal: its time shared out over the types that it may use in
proportion to their GPUs. The first optimum may leave GPUs to nobody. So the jobs that bound it are held at their level, and the
rest is raised further, until all are bound. GPUs that are then left go where they add most.

The round mechanism of Gavel (OSDI '20, section 5): it chooses the jobs of the next round, and their GPU types.

    priority_mj = X_mj / f_mj        f_mj: the fraction of its time that job m has run on type j

Algorithm 1: take pairs of job and type from the highest priority down, while GPUs of the type are left; nobody twice. A job
that has had nothing of a type yet comes before all that have, those that should have more of it first.

*Deviation*: the paper counts a job's time since the allocation last changed, which in a busy cluster is hardly ever more than a
round. Here the last `WINDOW_ROUNDS` rounds count, or the rounds since the job came. So the rounds keep to the fractions over
hours, even if many jobs come and go, and time long ago is not held against a job.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scheduler.placement.matrix import Columns, Relaxation, Relaxed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


LEVELS = 8
"""The most levels; the jobs above the last one share the rest only by throughput."""

BOUND = 1e-7
"""A job whose row has a price above this bounds the level."""

SLACK = 1e-7
"""The part by which a reached level may be missed when the next is sought: the solver's own tolerance."""

DIGITS = 9
"""Digits of a fraction that count: the solver's rounding stands behind them."""


@dataclass(frozen=True, slots=True)
class Row:
    """A job's throughput T by GPU type, where it can run; `scale` GPUs at a time; its weight w."""

    job: int
    scale: int
    throughput: Mapping[str, float]
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Allocation:
    """X by job and GPU type, the lowest level, and how many programs of which size it took."""

    fractions: Mapping[int, Mapping[str, float]]
    level: float
    solves: int
    variables: int
    constraints: int


def equal_throughput(row: Row, gpus: Mapping[str, int]) -> float:
    """throughput(m, X^equal_m)."""
    total = sum(gpus[name] for name in row.throughput)
    return sum(speed * gpus[name] / total for name, speed in row.throughput.items())


def allocate(
    rows: Sequence[Row], gpus: Mapping[str, int], *, seed: int, remaining_s: Callable[[], float]
) -> Allocation | None:
    """The fractions of all jobs that fit some type at all; None when the time was over before the first answer."""
    fitting: list[Row] = []
    for row in rows:
        speeds = {name: each for name, each in row.throughput.items() if gpus.get(name, 0) >= row.scale and each > 0}
        if speeds:
            fitting.append(Row(row.job, row.scale, speeds, row.weight))
    return _Levels(fitting, gpus, seed, remaining_s).allocate() if fitting else Allocation({}, 0.0, 0, 0, 0)


class _Levels:
    def __init__(
        self, rows: Sequence[Row], gpus: Mapping[str, int], seed: int, remaining_s: Callable[[], float]
    ) -> None:
        self.rows, self.gpus, self.seed, self.remaining_s = rows, gpus, seed, remaining_s
        self.cells = [(k, name) for k, row in enumerate(rows) for name in row.throughput]
        equal = [equal_throughput(row, gpus) for row in rows]
        self.values = [rows[k].scale / rows[k].weight * rows[k].throughput[name] / equal[k] for k, name in self.cells]
        self.held: dict[int, float] = {}  # row -> the level at which it is bound
        self.solves = 0

    def allocate(self) -> Allocation | None:
        lowest, found = 0.0, None
        while len(self.held) < len(self.rows) and self.solves < LEVELS:
            raised = self._solve(raise_level=True)
            if raised is None:
                break
            level = raised.objective
            lowest, found = (level if found is None else lowest), raised
            bound = [k for k in range(len(self.rows)) if k not in self.held and raised.prices[k] > BOUND]
            self.held |= dict.fromkeys(bound, level)
            if not bound:
                break
        all_bound = len(self.held) == len(self.rows)
        last = None if found is None or all_bound else self._solve(raise_level=False)
        best = last or found
        if best is None:
            return None
        fractions: dict[int, dict[str, float]] = {row.job: {} for row in self.rows}
        for (k, name), value in zip(self.cells, best.values, strict=False):
            fractions[self.rows[k].job][name] = min(1.0, max(0.0, round(float(value), DIGITS)))
        return Allocation(fractions, lowest, self.solves, len(self.cells) + 1, 2 * len(self.rows) + len(self.gpus))

    def _solve(self, *, raise_level: bool) -> Relaxed | None:
        """Raise the level of all that are not bound; or, all levels kept, the sum. None when time is over."""
        limit_s = self.remaining_s()
        if limit_s <= 0:
            return None
        count = len(self.rows)
        types = {name: 2 * count + position for position, name in enumerate(self.gpus)}
        columns = Columns()
        for (k, name), value in zip(self.cells, self.values, strict=True):
            entries = ((k, -value), (count + k, 1.0), (types[name], float(self.rows[k].scale)))
            columns.add(0.0 if raise_level else value, 1.0, entries)
        if raise_level:
            columns.add(1.0, math.inf, ((k, 1.0) for k in range(count) if k not in self.held))
        least = [-self.held.get(k, 0.0) * (1 - SLACK) for k in range(count)]
        bounds = np.array([*least, *[1.0] * count, *(float(each) for each in self.gpus.values())])
        self.solves += 1
        answer = Relaxation(columns.matrix(bounds), self.seed).solve(limit_s)
        return answer if answer.optimal else None


WINDOW_ROUNDS = 20

NOTHING_YET = 1e9
"""The factor on X_mj of a job that has had nothing of type j."""


@dataclass(frozen=True, slots=True)
class Entrant:
    """A job of the round. `fractions`: X by type; `had`: f by type; `now_on`: the type that it runs on."""

    job: int
    scale: int
    fractions: Mapping[str, float]
    had: Mapping[str, float]
    now_on: str | None = None

    def priority(self, gpu_type: str) -> float:
        had = self.had.get(gpu_type, 0.0)
        fraction = self.fractions.get(gpu_type, 0.0)
        return fraction / had if had > 0 else fraction * NOTHING_YET


def choose(entrants: Sequence[Entrant], gpus: Mapping[str, int]) -> dict[int, str]:
    """The GPU type of each job that runs. `entrants` in the queue's order, which decides between equals after leases do."""
    left = dict(gpus)
    chosen: dict[int, str] = {}
    for entrant, gpu_type in _by_priority(entrants):
        if entrant.job not in chosen and entrant.scale <= left.get(gpu_type, 0):
            left[gpu_type] -= entrant.scale
            chosen[entrant.job] = gpu_type
    return chosen


def _by_priority(entrants: Sequence[Entrant]) -> Iterable[tuple[Entrant, str]]:
    pairs = [
        (-entrant.priority(gpu_type), gpu_type != entrant.now_on, position, gpu_type)
        for position, entrant in enumerate(entrants)
        for gpu_type in entrant.fractions
    ]
    return ((entrants[position], gpu_type) for _, _, position, gpu_type in sorted(pairs))
