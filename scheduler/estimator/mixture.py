"""Data times as a mixture of two normals, cache hit and miss, fitted on line (Hops 3.5, eq. 3; algorithms.md section 2).

    T_d ~ p_hit * N(mu_hit, sigma_hit) + p_miss * N(mu_miss, sigma_miss);   T_w has a normal of its own for each of the two

The first fit is EM on what there is, started at the best split in two; from then on each batch is one step of on-line EM,
weighted by its part of all observations. One component when BIC, on the latest observations, says so.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from scheduler.model.speeds import Loading, Part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

KEPT = 512
"""Latest observations kept for the first fit and for BIC."""

FIRST_FIT_FROM = 12
EM_STEPS = 60
SINGLE_PARAMETERS, MIXED_PARAMETERS = 2, 5


def absorb(loading: Loading, data_s: Sequence[float], wait_s: Sequence[float | None] | None = None) -> Loading:
    """The loading after more iterations. `wait_s` beside each data time; None = one process, nobody to wait for.

    ValueError when a time is negative or not finite, or the two differ in length.
    """
    waits = [None] * len(data_s) if wait_s is None else list(wait_s)
    if len(waits) != len(data_s):
        raise ValueError(f"{len(data_s)} data times beside {len(waits)} wait times; give one for each iteration")
    if any(not math.isfinite(time) or time < 0 for time in (*data_s, *waits) if time is not None):
        raise ValueError("data and wait times must be finite and 0 or more")
    if not len(data_s):  # it may be an array
        return loading
    count = loading.count + len(data_s)
    new = [(float(data), None if wait is None else float(wait)) for data, wait in zip(data_s, waits, strict=True)]
    recent = (*loading.recent, *new)[-KEPT:]
    data, wait = _columns(new)
    if loading.is_stable:
        return _split_if_better(Loading(count, (_single(loading, data, wait),), recent))
    stepped = replace(_step(loading, data, wait), count=count, recent=recent)
    return stepped if _prefers_two(stepped) else Loading(count, (_whole(stepped.parts),), recent)


def _columns(observed: Sequence[tuple[float, float | None]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(data, wait), each one number an observation; NaN where there was nobody to wait for."""
    data, wait = np.array(observed, dtype=np.float64).T
    return data, wait


def _single(loading: Loading, data: NDArray[np.float64], wait: NDArray[np.float64]) -> Part:
    new = _part(np.ones(len(data)), data, wait)
    return new if not loading.parts else _whole((loading.parts[0], new))


def _whole(parts: Sequence[Part]) -> Part:
    return Part(*map(math.fsum, zip(*(part.statistics for part in parts), strict=True)))


def _part(shares: NDArray[np.float64], data: NDArray[np.float64], wait: NDArray[np.float64]) -> Part:
    alone = np.isnan(wait)
    waited, wait = np.where(alone, 0.0, shares), np.where(alone, 0.0, wait)
    sums = (shares, shares * data, shares * data**2, waited * wait, waited * wait**2, waited)
    return Part(*(float(np.add.reduce(each)) for each in sums))


def _step(loading: Loading, data: NDArray[np.float64], wait: NDArray[np.float64]) -> Loading:
    """One step of on-line EM: the batch's responsibilities under the present fit join the statistics."""
    shares = _responsibilities(data, loading.parts)
    parts = [_whole((part, _part(share, data, wait))) for part, share in zip(loading.parts, shares, strict=True)]
    return replace(loading, parts=_ordered(parts))


def _ordered(parts: Sequence[Part]) -> tuple[Part, ...]:
    return tuple(sorted(parts, key=lambda part: part.data_s))


def _log_densities(data: NDArray[np.float64], parts: Sequence[Part]) -> NDArray[np.float64]:
    """log(p_k * N(x; mu_k, sigma_k)), shape (components, observations)."""
    total = sum(part.weight for part in parts)
    rows = [
        math.log(max(part.weight / total, 1e-300))
        - math.log(part.data_sigma_s * math.sqrt(2 * math.pi))
        - 0.5 * ((data - part.data_s) / part.data_sigma_s) ** 2
        for part in parts
    ]
    return np.array(rows)


def _responsibilities(data: NDArray[np.float64], parts: Sequence[Part]) -> NDArray[np.float64]:
    logs = _log_densities(data, parts)
    shares: NDArray[np.float64] = np.exp(logs - logs.max(axis=0))
    shares /= shares.sum(axis=0)
    return shares


def _bic(data: NDArray[np.float64], parts: Sequence[Part]) -> float:
    logs = _log_densities(data, parts)
    top = logs.max(axis=0)
    likelihood = float((top + np.log(np.exp(logs - top).sum(axis=0))).sum())
    free = SINGLE_PARAMETERS if len(parts) == 1 else MIXED_PARAMETERS
    return free * math.log(len(data)) - 2 * likelihood


def _prefers_two(loading: Loading) -> bool:
    data, wait = _columns(loading.recent)
    if min(part.weight for part in loading.parts) < 1.0:
        return False
    return _bic(data, loading.parts) < _bic(data, (_part(np.ones(len(data)), data, wait),))


def _split_if_better(loading: Loading) -> Loading:
    """The loading with two components, where EM on the latest observations finds two that BIC prefers."""
    data, wait = _columns(loading.recent)
    parts = _first_split(data, wait) if len(data) >= FIRST_FIT_FROM else None
    if parts is None:
        return loading
    for _ in range(EM_STEPS):
        before = parts
        parts = [_part(share, data, wait) for share in _responsibilities(data, parts)]
        if min(part.weight for part in parts) < 1.0:
            return loading
        if all(abs(new.data - old.data) <= 1e-6 * old.data for new, old in zip(parts, before, strict=True)):
            break
    mixed = replace(loading, parts=_ordered(parts))
    return mixed if _prefers_two(mixed) else loading


def _first_split(data: NDArray[np.float64], wait: NDArray[np.float64]) -> list[Part] | None:
    """Two parts at the threshold with the smallest sum of squares within; None when all times are the same."""
    ordered = np.sort(data)
    sums, squares, n = np.cumsum(ordered), np.cumsum(ordered**2), len(ordered)
    cuts = [k for k, (low, high) in enumerate(pairwise(ordered), start=1) if high > low]
    if not cuts:
        return None

    def within(k: int) -> float:
        low = squares[k - 1] - sums[k - 1] ** 2 / k
        high = squares[-1] - squares[k - 1] - (sums[-1] - sums[k - 1]) ** 2 / (n - k)
        return float(low + high)

    limit = ordered[min(cuts, key=within)]
    return [_part((side).astype(np.float64), data, wait) for side in (data < limit, data >= limit)]
