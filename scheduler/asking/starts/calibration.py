"""The last step of a forecast: ranges widened by their own record (split conformal prediction on past residuals).

A draw's wait x counts by u(x) = ln(1 + x / `SCALE_S`), so that half a minute matters soon and not in hours. Each past forecast
has a residual

    z = (u(waited) - u(middle)) / s,   s = max(`LEAST`, (u(high) - u(low)) / 2)     low, middle, high: as it was drawn

and a new range reaches from the (1 - `AIM`) / 2 quantile of z to the (1 + `AIM`) / 2 quantile, times its own s, about its own
middle (Romano et al., 2019, "Conformalized quantile regression", with the draws' spread as the measure of doubt). Past forecasts
count by how near their middle was, exp(-|du| / `NEAR`), which is a bin for every horizon without borders, and
half as much for each `HALF` forecasts that came after them: the record is the cluster's own and moves with it. n ranges that were
made at one moment count as sqrt(n): a burst of a hundred jobs meets one fate, and is no hundred witnesses.

A job that still waits is a wait "longer than this": the product-limit estimate counts it so,
else the late ones would be missing. With few past forecasts `BELIEF` residuals stand in: below 0 spread evenly as far as
-1 - `EARLIER` * `LEAST` / s, above as far as 1 + `LATER` * `LEAST` / s. A range without a record so is wider than drawn, by a
fixed step rather than in proportion, and more so at its late end: the draws do not know what a cluster that they have not seen
adds to run times (docs/evidence/start-ranges.md has what was tried). `AIM` lies above `HELD`, for a quantile of few is too near.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scheduler.asking.starts.ranges import LONGEST_S
from scheduler.asking.starts.runtimes import product_limit

if TYPE_CHECKING:
    from collections.abc import Iterable

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
