"""Quantities that hold from one planning to the next: their time-weighted means, and their course in equal steps.

A record says how the planning left the cluster. That holds until the next record. The time that counts is from the first
submission to the end of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scheduler.simulator.records import PlanningRecord, Run

    Values = NDArray[np.float64]


POINTS = 201


@dataclass(frozen=True, slots=True)
class Steps:
    """Plannings as steps: `length_s[i]` is for how long record i held, 0 where another followed in the same instant."""

    records: Sequence[PlanningRecord]
    at_s: Values
    length_s: Values
    begins_s: float
    ends_s: float

    @classmethod
    def of(cls, run: Run) -> Steps:
        records = run.plannings
        begins_s = min((job.submitted_s for job in run.jobs), default=0.0)
        at_s = np.array([record.at_s for record in records], dtype=np.float64)
        ends_s = max(run.ended_s, begins_s)
        length_s = np.clip(np.diff(np.append(at_s, ends_s)), 0.0, None) if len(records) else np.zeros(0)
        return cls(records, at_s, length_s, begins_s, ends_s)

    def values(self, field: Callable[[PlanningRecord], float]) -> Values:
        return np.array([field(record) for record in self.records], dtype=np.float64)

    def mean(self, values: Values, where: NDArray[np.bool_] | None = None) -> float | None:
        """The mean over all the time (0 before the first planning), or over the part where `where` is true; None for no time."""
        if where is None:
            whole_s = self.ends_s - self.begins_s
            return float(values @ self.length_s) / whole_s if whole_s > 0 else None
        whole_s = float(self.length_s[where].sum())
        return float(values[where] @ self.length_s[where]) / whole_s if whole_s > 0 else None

    def course(self, values: Values, bins: int) -> list[float]:
        """Means over `bins` equal spans of the time; empty for no time."""
        if self.ends_s <= self.begins_s:
            return []
        edges = np.linspace(self.begins_s, self.ends_s, bins + 1)
        # The integral is piecewise linear in time: read it off at the edges.
        at_s = np.concatenate(([self.begins_s], self.at_s, [self.ends_s]))
        area = np.concatenate(([0.0, 0.0], np.cumsum(values * self.length_s)))
        if len(self.at_s) == 0:
            return [0.0] * bins
        return [float(value) for value in np.diff(np.interp(edges, at_s, area)) / np.diff(edges)]


def quantile(values: Sequence[float], part: float) -> float | None:
    """Linear between neighbours; None of nothing."""
    return float(np.quantile(np.asarray(values, dtype=np.float64), part)) if len(values) else None


def mean(values: Sequence[float]) -> float | None:
    return float(np.mean(np.asarray(values, dtype=np.float64))) if len(values) else None


def cdf(values: Sequence[float]) -> list[float]:
    """The quantiles at equal steps from 0 to 1: at most `POINTS`, all values when they are fewer, sorted."""
    if len(values) <= POINTS:
        return sorted(float(value) for value in values)
    return [float(value) for value in np.quantile(np.asarray(values, dtype=np.float64), np.linspace(0, 1, POINTS))]
