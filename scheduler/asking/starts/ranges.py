"""Start ranges, and how past ones fared: the part that held, and how wide they were for it.

The *interval score* (Gneiting and Raftery, 2007, eq. 43) of a range [l, u] for a start y is its width plus 2/a times the miss,
a = 1 - `HELD`: seconds, smaller is better. A range that is made wider to hold more pays for it, and so does a narrow one that
misses; no range does better on average than from the true a/2 to the true 1 - a/2 quantile.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import TYPE_CHECKING

import numpy as np

from scheduler.asking.starts.runtimes import product_limit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.model import Configuration


AIM = 0.84
SCALE_S = 30.0
LEAST = 0.5
NEAR = 1.5
HALF = 1000.0
BELIEF = 4.0
EARLIER, LATER = 0.5, 1.0
GRID = 0.1
"""Residuals are looked up once for middles and spreads that are this near."""
MOST = 1500
"""The most past forecasts that count, the latest ones."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A range as the draws had it: waits from when it was made, seconds; at most `LONGEST_S`."""

    low_s: float
    middle_s: float
    high_s: float


@dataclass(frozen=True, slots=True)
class Foretold:
    """A past forecast: when it was made, as drawn, and how long the job then waited, or has waited so far (`started` False)."""

    made_s: float
    drawn: Drawn
    waited_s: float
    started: bool


class Calibration:
    """Corrects ranges by the record. `record`: oldest first."""

    def __init__(self, record: Iterable[Foretold]) -> None:
        latest = list(record)[-MOST:]
        self._middles = np.array([_unit(each.drawn.middle_s) for each in latest])
        waited = np.array([_unit(each.waited_s) for each in latest])
        spreads = np.array([_spread(each.drawn) for each in latest])
        self._residuals = (waited - self._middles) / spreads if latest else np.zeros(0)
        self._started = np.array([each.started for each in latest], dtype=bool)
        _, moment, count = np.unique([each.made_s for each in latest], return_inverse=True, return_counts=True)
        self._counts = 0.5 ** (np.arange(len(latest))[::-1] / HALF) / np.sqrt(count[moment])
        self._found: dict[tuple[int, int], tuple[float, float, float]] = {}

    def applied(self, drawn: Drawn) -> Drawn:
        """The range with the record's doubt. Its middle moves too, where past ones were all too early or too late."""
        middle, spread = _unit(drawn.middle_s), _spread(drawn)
        low, between, high = self._residuals_at(round(middle / GRID), round(spread / GRID))
        units = (max(0.0, min(middle + each * spread, 20.0)) for each in (low, between, high))
        return Drawn(*(min(LONGEST_S, SCALE_S * math.expm1(unit)) for unit in units))

    def _residuals_at(self, step: int, spread: int) -> tuple[float, float, float]:
        found = self._found.get((step, spread))
        if found is None:
            # The residuals of a cluster without a record, for ranges of this spread.
            step_of_prior = LEAST / max(LEAST, spread * GRID)
            early = np.linspace(-1.0 - EARLIER * step_of_prior, 0.0, 5)
            late = np.linspace(0.0, 1.0 + LATER * step_of_prior, 5)
            prior = np.concatenate([early, late[1:]])
            weights = self._counts * np.exp(-np.abs(self._middles - step * GRID) / NEAR)
            parts = np.array([(1.0 - AIM) / 2.0, 0.5, (1.0 + AIM) / 2.0])
            low, between, high = product_limit(
                np.concatenate([self._residuals, prior]),
                np.concatenate([self._started, np.ones(len(prior), dtype=bool)]),
                np.concatenate([weights, np.full(len(prior), BELIEF / len(prior))]),
                parts,
            )
            found = self._found[step, spread] = (float(low), float(between), float(high))
        return found


def _unit(wait_s: float) -> float:
    return math.log1p(max(0.0, min(wait_s, LONGEST_S)) / SCALE_S)


def _spread(drawn: Drawn) -> float:
    return max(LEAST, (_unit(drawn.high_s) - _unit(drawn.low_s)) / 2.0)


HELD = 0.8
"""The part of the starts that should lie within their range."""
LONGEST_S = 24 * 3600.0
"""A range without an end, and a range's miss, count as no longer than this in widths and scores."""


@dataclass(frozen=True, slots=True)
class StartRange:
    """When a job is expected to start, seconds on the snapshot's clock; None = beyond the horizon. `draws`: of how many."""

    earliest_s: float | None
    median_s: float | None
    latest_s: float | None
    draws: int
    drawn: Drawn | None = None  # before calibration
    on: tuple[Configuration, ...] = ()  # its configurations, in the draws in which it starts

    def not_before(self, at_s: float) -> StartRange:
        early_s, middle_s, late_s = (
            None if each is None else max(at_s, each) for each in (self.earliest_s, self.median_s, self.latest_s)
        )
        return replace(self, earliest_s=early_s, median_s=middle_s, latest_s=late_s)


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How past predictions fared, for jobs that have started. `coverage`: the part whose start lay within the range.

    Medians: `width_s` of the ranges, `wait_s` from prediction to start; `score_of_wait`: the mean interval score over the
    mean wait. None without any.
    """

    jobs: int
    covered: int
    coverage: float | None
    median_error_s: float | None  # of |actual - predicted median|, where a median was predicted
    median_error_of_wait: float | None  # the same over the time from prediction to actual start
    width_s: float | None = None
    wait_s: float | None = None
    score_of_wait: float | None = None


def accuracy(rows: Iterable[tuple[StartRange, float, float]]) -> Accuracy:
    """The record of (prediction, when it was made, when the job started). A latest of None covers any late start."""
    every = list(rows)
    if not every:
        return Accuracy(0, 0, None, None, None)
    covered = sum(covers(predicted, actual_s) for predicted, _, actual_s in every)
    errors = [
        (abs(actual_s - predicted.median_s), max(1.0, actual_s - made_s))
        for predicted, made_s, actual_s in every
        if predicted.median_s is not None
    ]
    waits = [max(0.0, actual_s - made_s) for _, made_s, actual_s in every]
    bounds = [
        (*_bounds(predicted, made_s), wait_s) for (predicted, made_s, _), wait_s in zip(every, waits, strict=True)
    ]
    scores = [score_s(low_s, high_s, wait_s) for low_s, high_s, wait_s in bounds]
    return Accuracy(
        jobs=len(every),
        covered=covered,
        coverage=covered / len(every),
        median_error_s=median(error for error, _ in errors) if errors else None,
        median_error_of_wait=median(error / wait_s for error, wait_s in errors) if errors else None,
        width_s=median(high_s - low_s for low_s, high_s, _ in bounds),
        wait_s=median(waits),
        score_of_wait=fmean(scores) / max(1.0, fmean(waits)),
    )


def covers(predicted: StartRange, actual_s: float) -> bool:
    """Whether the range held; "beyond the horizon" is no range that could be met."""
    if predicted.earliest_s is None:
        return False
    return predicted.earliest_s <= actual_s <= (math.inf if predicted.latest_s is None else predicted.latest_s)


def score_s(low_s: float, high_s: float, wait_s: float) -> float:
    """The interval score of a range of waits, seconds."""
    missed_s = max(0.0, low_s - wait_s) + max(0.0, wait_s - high_s)
    return high_s - low_s + 2.0 / (1.0 - HELD) * min(missed_s, LONGEST_S)


def _bounds(predicted: StartRange, made_s: float) -> tuple[float, float]:
    """The range as waits from when it was made."""
    ends = (predicted.earliest_s, predicted.latest_s)
    low_s, high_s = (LONGEST_S if end is None else max(0.0, min(LONGEST_S, end - made_s)) for end in ends)
    return low_s, high_s
