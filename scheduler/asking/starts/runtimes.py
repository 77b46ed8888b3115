"""How long jobs really run, over their expected time: a distribution learnt from earlier jobs, not a point.

For each owner (or tenant) the ratios of run time to age of its past jobs; a job that still runs counts as "longer than this" in
the product-limit estimate (Kaplan and Meier, 1958), else the long jobs, which end last, would be missing. An owner with
few jobs shares everybody's; a cluster with few has the log-normal with median 1 and sigma `SIGMA`.

Jobs that accept the same sizes are a *kind*. Where a kind's ratios agree and their median lies outside the middle four
fifths of that, it is a kind apart: then the kind's jobs of all owners count, and the owner's of the kind once more. So jobs
of ten GPUs that all declare ten times too long are soon known, among hundreds that declare the truth.

A larger size shortens a run by (mean size / size)^b. Whether it does is learnt too: b is the slope of the past ratios
over their sizes, from `EXPONENT` towards 0 where jobs last as long on many GPUs as on few.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from statistics import NormalDist, median
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SIGMA = 0.5
"""The width of the log-normal for unknown jobs: two thirds of them run for 0.6 to 1.65 times the expected time."""
BELIEF, KIN = 5.0, 3.0
"""Jobs that the log-normal counts as; and everybody's or the owner's for a kind, the kind's for the owner's of it."""
OWN_LEAST, KIND_LEAST = 20, 5
"""Past jobs from which on an owner has a distribution of its own, and a kind may."""
AGREED = 1.0
"""The largest distance of a kind's 10 and 90 % quantiles, as logarithms, at which it is a kind apart."""
EXPONENT, EXPONENT_BELIEF = 0.9, 2.0
"""The slope before anything is known, and the sum of squared log sizes that this counts as."""
QUANTILES = 64
NORMAL = NormalDist()
PARTS = (np.arange(QUANTILES) + 0.5) / QUANTILES
PRIOR = [SIGMA * NORMAL.inv_cdf(float(part)) for part in PARTS]
Row = tuple[float, bool]
"""ln(run time / expected), and whether the job has ended."""


@dataclass(frozen=True, slots=True)
class PastRun:
    """A job that ran, or runs: for `ran_s` so far, where `age_s` was expected at its mean size; `size`: that over its own.
    `sizes`: the GPU counts that it accepts.
    """

    owner: int
    ran_s: float
    age_s: float
    ended: bool
    size: float = 1.0
    sizes: tuple[int, ...] = ()


class RunTimes:
    """Distributions of ln(run time / expected), corrected for size."""

    def __init__(self, past: Iterable[PastRun] = ()) -> None:
        runs = [each for each in past if each.ran_s > 0 and each.age_s > 0]
        self.exponent = _exponent([each for each in runs if each.ended])
        self._owners: dict[int, list[Row]] = defaultdict(list)
        self._kinds: dict[tuple[int, ...], list[Row]] = defaultdict(list)
        self._both: dict[tuple[int, tuple[int, ...]], list[Row]] = defaultdict(list)
        rows = []
        for each in runs:
            row = (math.log(each.ran_s / each.age_s) - self.exponent * math.log(each.size), each.ended)
            rows.append(row)
            self._owners[each.owner].append(row)
            self._kinds[each.sizes].append(row)
            self._both[each.owner, each.sizes].append(row)
        self._all = _curve(rows, PRIOR, BELIEF)
        self._curves: dict[tuple[int, tuple[int, ...]], list[float]] = {}

    def ratio(self, owner: int, sizes: tuple[int, ...], normal: float, lasted: float = 0.0) -> float:
        """The run time over the expected one, drawn by a standard normal number; at least `lasted`, the part that is run."""
        curve = self._curve_of(owner, sizes)
        part = NORMAL.cdf(normal)
        if lasted <= 0:
            return math.exp(_at(curve, part))
        known = math.log(lasted)
        done = bisect_right(curve, known) / len(curve)
        if done >= 1.0:  # longer than any: about as long again
            return lasted * (1.0 + math.exp(SIGMA * normal))
        return max(lasted, math.exp(_at(curve, done + part * (1.0 - done))))

    def _curve_of(self, owner: int, sizes: tuple[int, ...]) -> list[float]:
        found = self._curves.get((owner, sizes))
        if found is None:
            own, kind = self._owners.get(owner, ()), self._kinds.get(sizes, ())
            found = _curve(own, PRIOR, BELIEF) if sum(ended for _, ended in own) >= OWN_LEAST else self._all
            ratios = sorted(ratio for ratio, ended in kind if ended)
            agree = len(ratios) >= KIND_LEAST and _at(ratios, 0.9) - _at(ratios, 0.1) <= AGREED
            if agree and not _at(found, 0.1) <= median(ratios) <= _at(found, 0.9):
                found = _curve(self._both.get((owner, sizes), ()), _curve(kind, found, KIN), KIN)
            self._curves[owner, sizes] = found
        return found


def _curve(rows: Sequence[Row], prior: Sequence[float], belief: float) -> list[float]:
    """Quantiles (at the middles of equal parts) of the product-limit estimate, the prior mixed in as `belief` jobs."""
    values = np.array([*(value for value, _ in rows), *prior])
    ended = np.array([*(flag for _, flag in rows), *(True for _ in prior)])
    weights = np.concatenate([np.ones(len(rows)), np.full(len(prior), belief / len(prior))])
    return [float(each) for each in product_limit(values, ended, weights, PARTS)]


def product_limit(values: np.ndarray, known: np.ndarray, weights: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """Quantiles at `parts` of weighted values of which the not `known` ones are only lower bounds. The largest value where
    the estimate ends before.
    """
    by_value = np.lexsort((~known, values))
    values, known, weights = values[by_value], known[by_value], weights[by_value]
    at_risk = np.cumsum(weights[::-1])[::-1]
    left = np.cumprod(np.where(known, 1.0 - weights / at_risk, 1.0))
    places = np.searchsorted(1.0 - left, parts - 1e-9)
    return values[np.minimum(places, len(values) - 1)]


def _at(curve: Sequence[float], part: float) -> float:
    place = min(max(part * len(curve) - 0.5, 0.0), len(curve) - 1.0)
    low = int(place)
    high = min(low + 1, len(curve) - 1)
    return curve[low] + (place - low) * (curve[high] - curve[low])


def _exponent(runs: Sequence[PastRun]) -> float:
    """Ridge regression of the log ratio on the log size, each over its owner's mean."""
    by_owner: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for each in runs:
        by_owner[each.owner].append((math.log(each.size), math.log(each.ran_s / each.age_s)))
    squares, products = EXPONENT_BELIEF, EXPONENT_BELIEF * EXPONENT
    for rows in by_owner.values():
        sizes, ratios = np.array(rows).T
        apart = sizes - sizes.mean()
        squares += float(apart @ apart)
        products += float(apart @ (ratios - ratios.mean()))
    return min(1.0, max(0.0, products / squares))
