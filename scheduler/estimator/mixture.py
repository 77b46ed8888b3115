"""Data times as a mixture of two normals, cache hit and miss, fitted on line (Hops 3.5, eq. 3; algorithms.md section 2).

    T_d ~ p_hit * N(mu_hit, sigma_hit) + p_miss * N(mu_miss, sigma_miss);   T_w has a normal of its own for each of the two

The first fit is EM on what there is, started at the best split in two; from then on each batch is one step of on-line EM,
weighted by its part of all observations. One component when BIC, on the latest observations, says so.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from scheduler.copies import replace
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
    terms = _terms(new)
    if loading.is_stable:
        (new_part,) = _parts(np.ones((1, terms.shape[1])), terms)
        part = _whole((loading.parts[0], new_part)) if loading.parts else new_part
        return _split_if_better(Loading(count, (part,), recent))
    stepped = replace(_step(loading, terms), count=count, recent=recent)
    return stepped if _prefers_two(stepped) else Loading(count, (_whole(stepped.parts),), recent)


def _terms(observed: Sequence[tuple[float, float | None]]) -> NDArray[np.float64]:
    """Each observation's addition to a part's statistics, at a share of 1: a row each, 0 for waiting without another process.

    The second row is the data times.
    """
    data, wait = np.array(observed, dtype=np.float64).T
    alone = np.isnan(wait)
    wait = np.where(alone, 0.0, wait)
    return np.array((np.ones(len(data)), data, data**2, wait, wait**2, ~alone))


def _whole(parts: Sequence[Part]) -> Part:
    return Part(*map(math.fsum, zip(*(part.statistics for part in parts), strict=True)))


def _parts(shares: NDArray[np.float64], terms: NDArray[np.float64]) -> list[Part]:
    """A part for each row of shares, of shape (parts, observations)."""
    return [Part(*sums) for sums in np.add.reduce(shares[:, None, :] * terms, axis=2).tolist()]


def _step(loading: Loading, terms: NDArray[np.float64]) -> Loading:
    """One step of on-line EM: the batch's responsibilities under the present fit join the statistics."""
    new = _parts(_responsibilities(terms[1], loading.parts), terms)
    return replace(loading, parts=_ordered([_whole(each) for each in zip(loading.parts, new, strict=True)]))


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


def _prefers_two(loading: Loading, terms: NDArray[np.float64] | None = None) -> bool:
    """Whether BIC, on the latest observations, is for two. `terms`: theirs, where they are known already."""
    if min(part.weight for part in loading.parts) < 1.0:
        return False
    terms = _terms(loading.recent) if terms is None else terms
    data = terms[1]
    return _bic(data, loading.parts) < _bic(data, _parts(np.ones((1, len(data))), terms))


def _split_if_better(loading: Loading) -> Loading:
    """The loading with two components, where EM on the latest observations finds two that BIC prefers."""
    terms = _terms(loading.recent)
    parts = _first_split(terms) if terms.shape[1] >= FIRST_FIT_FROM else None
    if parts is None:
        return loading
    for _ in range(EM_STEPS):
        before = parts
        parts = _parts(_responsibilities(terms[1], parts), terms)
        if min(part.weight for part in parts) < 1.0:
            return loading
        if all(abs(new.data - old.data) <= 1e-6 * old.data for new, old in zip(parts, before, strict=True)):
            break
    mixed = replace(loading, parts=_ordered(parts))
    return mixed if _prefers_two(mixed, terms) else loading


def _first_split(terms: NDArray[np.float64]) -> list[Part] | None:
    """Two parts at the threshold with the smallest sum of squares within; None when all times are the same."""
    data = terms[1]
    ordered = np.sort(data)
    sums, squares, n = np.cumsum(ordered), np.cumsum(ordered**2), len(ordered)
    cuts = np.flatnonzero(ordered[1:] > ordered[:-1]) + 1
    if not len(cuts):
        return None
    low = squares[cuts - 1] - sums[cuts - 1] ** 2 / cuts
    high = squares[-1] - squares[cuts - 1] - (sums[-1] - sums[cuts - 1]) ** 2 / (n - cuts)
    below = data < ordered[cuts[np.argmin(low + high)]]
    return _parts(np.array((below, ~below), dtype=np.float64), terms)
