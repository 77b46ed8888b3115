"""The figures that the sharing policies read out of equally spaced samples (Kube-Knots IV-C and IV-D, eq. 1 to 3)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Singles = NDArray[np.float32]
Numbers = NDArray[np.int8]

LEAST_SAMPLES = 5
"""Fewer say nothing: a correlation of three points is 1 or -1 half of the time."""


def ranks(values: ArrayLike) -> Floats:
    """Return each value's rank along the last axis, 1 for the smallest; equal ones share the mean of their ranks."""
    given = np.asarray(values, dtype=np.float64)
    order = np.argsort(given, axis=-1)  # equal ones in any order: they share a rank
    risen = np.take_along_axis(given, order, axis=-1)
    at = np.arange(given.shape[-1])
    new = np.ones(given.shape, dtype=bool)
    new[..., 1:] = risen[..., 1:] != risen[..., :-1]
    if new.all():
        return _put(order, at.astype(np.float64) + 1.0)
    first = _accumulated(np.maximum, np.where(new, at, 0))
    ends = np.ones(given.shape, dtype=bool)
    ends[..., :-1] = new[..., 1:]
    last = _accumulated(np.minimum, np.where(ends, at, given.shape[-1])[..., ::-1])[..., ::-1]
    return _put(order, (first + last) / 2.0 + 1.0)


def _put(order: Ints, values: Floats) -> Floats:
    """Return the values, which stand in rising order, where `order` says that they belong."""
    found = np.empty(order.shape)
    np.put_along_axis(found, order, np.broadcast_to(values, order.shape), axis=-1)
    return found


def _accumulated(of: np.ufunc, values: Ints) -> Ints:
    """Accumulate along the last axis, but for many short series all at once: a fifth of the time."""
    turned = np.ascontiguousarray(np.moveaxis(values, -1, 0))
    found: Ints = np.moveaxis(of.accumulate(turned, axis=0), 0, -1)
    return found


def whole_ranks(values: ArrayLike) -> tuple[Singles, Floats]:
    """Return ranks as whole numbers of mean 0, and one over their length (0 for a constant series). Along the last axis.

    The ranks' product times both scales is Spearman's correlation (eq. 1). They are twice the ranks, so whole also where several
    share one, and sums of their products are below 2**24 for up to 256 values: single precision holds them exactly.
    """
    doubled = 2.0 * ranks(values)
    doubled -= doubled.shape[-1] + 1
    squares = (doubled * doubled).sum(axis=-1)
    scales: Floats = np.divide(1.0, np.sqrt(squares), out=np.zeros_like(squares), where=squares > 0.0)
    return doubled.astype(np.float32), scales


def autocorrelation(values: ArrayLike, lag: int = 1) -> float:
    """Return `r_lag` of a series (eq. 2), 0 for a constant one. Raises ValueError where `lag` is not below its length."""
    series = np.asarray(values, dtype=np.float64)
    if not 0 < lag < len(series):
        raise ValueError(f"a series of {len(series)} samples has no autocorrelation at lag {lag}")
    away = series - _mean(series)
    spread = float(away @ away)
    return float(away[:-lag] @ away[lag:]) / spread if spread > 0.0 else 0.0


def first_order(values: ArrayLike) -> tuple[float, float]:
    """Return intercept mu and slope phi of the least-squares line from each sample to the next (eq. 3).

    For a constant series (0, 1): it stays as it is.
    """
    series = np.asarray(values, dtype=np.float64)
    before, after = series[:-1], series[1:]
    first, second = _mean(before), _mean(after)
    away = before - first
    spread = float(away @ away)
    if spread <= 0.0:
        return second - first, 1.0
    slope = float(away @ (after - second)) / spread
    return second - slope * first, slope


def _mean(series: Floats) -> float:
    """As numpy's, in a third of its time for the few samples that there are."""
    return float(np.add.reduce(series)) / len(series)


def forecast(values: ArrayLike, steps: int = 1) -> float:
    """Return the series' value after `steps` further samples, by `first_order` from the last one.

    A slope beyond 1 grows without end: the caller knows the measure's limit.
    """
    series = np.asarray(values, dtype=np.float64)
    mu, phi = first_order(series)
    value = float(series[-1])
    for _ in range(steps):
        value = mu + phi * value
    return value


def resampled(values: ArrayLike, points: int) -> Floats:
    """Return `points` means over equal stretches of a series: one shape for series of any length. Shape (points,).

    Raises ValueError for an empty series.
    """
    series = np.asarray(values, dtype=np.float64)
    if len(series) == 0:
        raise ValueError("an empty series cannot be resampled")
    if len(series) == points:
        return series
    edges = np.linspace(0.0, len(series), points + 1)
    whole = np.concatenate(([0.0], np.cumsum(series)))
    at = np.interp(edges, np.arange(len(series) + 1.0), whole)
    found: Floats = np.diff(at) * points / len(series)
    scale = float(np.abs(found).max()) or 1.0
    return np.round(found / scale, 9) * scale  # equal numbers must stay equal: ranks tell the smallest difference
