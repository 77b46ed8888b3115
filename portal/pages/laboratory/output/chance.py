"""Whether a difference between two rules is more than the chance of which jobs came: a paired bootstrap over blocks of jobs.

Both rules had the same jobs. Neighbours in time wait together, so whole blocks of neighbours are drawn, with the same seed
each time: a page that is loaded again says the same. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Values = NDArray[np.float64]
    Curves = Mapping[str, Any]
    """One rule's, as `scheduler.simulator.report.curves` gives them."""

BLOCKS, DRAWS, SEED = 20, 200, 1
CERTAIN = 0.95
LEAST = 8
"""Fewer jobs or points show no difference."""


def _mean(place: int) -> Callable[[Values], Values]:
    """Return the mean of the jobs that have the figure; 0 of none."""
    return lambda drawn: (
        np.nansum(drawn[..., place], axis=-1) / np.maximum(1, np.count_nonzero(~np.isnan(drawn[..., place]), axis=-1))
    )


FIGURES: dict[str, tuple[str, Callable[[Values], Values]]] = {
    "mean wait": ("jobs", _mean(0)),
    "longest 1 % wait": ("jobs", lambda drawn: np.quantile(drawn[..., 0], 0.99, axis=-1)),
    "wait over run": ("jobs", _mean(2)),
    "mean run": ("jobs", _mean(1)),
    "mean JCT": ("jobs", lambda drawn: _mean(0)(drawn[..., :2].sum(axis=-1, keepdims=True))),
    "GPUs held": ("active_rate", _mean(0)),
    "fragments": ("fragments", _mean(0)),
}
"""A column of the answer, by its label: the jobs or the points of time that it is a figure of, and how."""


def is_clear(label: str, one: Curves, other: Curves) -> bool:
    """Say whether the same rule has the better figure in 95 of 100 draws; no for a figure that is only one number."""
    key, figure = FIGURES.get(label, ("", _mean(0)))
    mine, theirs = one.get(key, ()), other.get(key, ())
    if len(mine) != len(theirs) or len(mine) < LEAST:
        return False
    blocks = min(BLOCKS, len(mine))
    length = len(mine) // blocks
    first = np.random.default_rng(SEED).integers(blocks, size=(DRAWS, blocks)) * length
    drawn = (first[:, :, None] + np.arange(length)).reshape(DRAWS, -1)
    ahead = figure(_rows(mine)[drawn]) - figure(_rows(theirs)[drawn])
    return bool(max(np.mean(ahead < 0), np.mean(ahead > 0)) >= 1.0 - (1.0 - CERTAIN) / 2)


def _rows(values: Any) -> Values:
    return np.array(values, dtype=np.float64).reshape(len(values), -1)
