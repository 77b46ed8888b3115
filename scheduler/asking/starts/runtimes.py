"""How long jobs really run, over what was expected of them: a distribution learnt from the ones before, not a point.

For each owner (or tenant) the ratios of run time to age of its past jobs; what still runs counts as "longer than this" in
the product-limit estimate (Kaplan and Meier, 1958), else the long jobs, which end last, would be missing. An owner with
few jobs shares everybody's; a cluster with few has the log-normal with median 1 and sigma `SIGMA`.

A larger size shortens a run by (mean size / size)^b. Whether it does is learnt too: b is the slope of the past ratios
over their sizes, from `EXPONENT` towards 0 where jobs last as long on many GPUs as on few.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SIGMA = 0.5
"""Of the log-normal that nothing is known of: two thirds of the jobs run for 0.6 to 1.65 times what is expected."""
OWN_LEAST = 20
"""Past jobs from which on an owner has a distribution of its own."""
BELIEF = 5.0
"""Jobs that the log-normal counts as."""
EXPONENT, EXPONENT_BELIEF = 0.9, 2.0
"""The slope before anything is known, and the sum of squared log sizes that this counts as."""
QUANTILES = 64
NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class PastRun:
    """A job that ran, or runs: for `ran_s` so far, where `age_s` was expected at its mean size; `size`: that over its own."""

    owner: int
    ran_s: float
    age_s: float
    ended: bool
    size: float = 1.0


class RunTimes:
    """Distributions of ln(run time / expected), corrected for size."""

    def __init__(self, past: Iterable[PastRun] = ()) -> None:
        runs = [each for each in past if each.ran_s > 0 and each.age_s > 0]
        self.exponent = _exponent([each for each in runs if each.ended])
        by_owner: dict[int, list[tuple[float, bool]]] = defaultdict(list)
        for each in runs:
            ratio = math.log(each.ran_s / each.age_s) - self.exponent * math.log(each.size)
            by_owner[each.owner].append((ratio, each.ended))
        self._all = _curve([row for rows in by_owner.values() for row in rows])
        self._own = {
            owner: _curve(rows) for owner, rows in by_owner.items() if sum(ended for _, ended in rows) >= OWN_LEAST
        }

    def ratio(self, owner: int, normal: float, lasted: float = 0.0) -> float:
        """The run time over what was expected, drawn by a standard normal number: of a job that has `lasted` for so much
        of it already. At least `lasted`.
        """
        curve = self._own.get(owner, self._all)
        part = NORMAL.cdf(normal)
        if lasted <= 0:
            return math.exp(_at(curve, part))
        known = math.log(lasted)
        done = bisect_right(curve, known) / len(curve)
        if done >= 1.0:  # longer than any: about as long again
            return lasted * (1.0 + math.exp(SIGMA * normal))
        return max(lasted, math.exp(_at(curve, done + part * (1.0 - done))))


def _curve(rows: Sequence[tuple[float, bool]]) -> list[float]:
    """Quantiles (at the middles of equal parts) of the product-limit estimate, the log-normal mixed in."""
    parts = (np.arange(QUANTILES) + 0.5) / QUANTILES
    prior = np.array([SIGMA * NORMAL.inv_cdf(float(part)) for part in parts])
    if not rows:
        return [float(each) for each in prior]
    values = np.concatenate([np.array([value for value, _ in rows]), prior])
    ended = np.concatenate([np.array([flag for _, flag in rows]), np.ones(QUANTILES, dtype=bool)])
    weights = np.concatenate([np.ones(len(rows)), np.full(QUANTILES, BELIEF / QUANTILES)])
    found = product_limit(values, ended, weights, parts)
    return [float(each) for each in found]


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
