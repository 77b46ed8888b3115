"""The wait of a synchronous step for its slowest process, foretold from one process (algorithms.md section 2). *Ours.*

N processes that take X_1 ... X_N seconds until they meet make a step of max X, so each waits, on average,

    W(N) = E max(X_1 ... X_N) - E X = integral of F(x) - F(x)^N        F the distribution of one process's time

for independent X of one distribution: the largest order statistic (David and Nagaraja, Order Statistics, 3rd ed., 2.1 and 3.1).
F is known from one process: data times are a mixture of two normals (`mixture`), and the computing of a step is a normal around
its mean. W(1) is 0, W never falls with N, and is 0 without spread. Between equally correlated normal times W is smaller by the
factor sqrt(1 - rho) (the same, 5.3), whatever N. So what runs of M processes really waited gives that factor:

    W(N) = waited + k*(W'(N) - W'(M))        W' by the integral, k = waited / W'(M), 1 at most

Their wait beyond W' (processes that wake late, one that has more to do) is carried over as it is.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from scheduler.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.model.speeds import Profile

REACH, POINTS = 8.0, 48
"""The integral goes `REACH` standard deviations to each side of each mean, by `POINTS` points: to a millionth of its value."""
STEPS = [2 * point / POINTS - 1 for point in range(POINTS + 1)]
LEAST, WITHIN_SIGMA = 8, (0.1587, 0.8413)
"""Times that tell a spread, and the shares of a normal distribution below one standard deviation to either side."""
SHARPEST = 1e-6
"""A time that never varies, beside others that do, is taken for a normal with so small a deviation, of the largest mean."""

Normal = tuple[float, float, float]
"""Its weight, mean and standard deviation in seconds."""


def spread_s(times_s: Sequence[float]) -> float | None:
    """Standard deviation of a normal that has the times' 16th and 84th percentile; None of fewer than `LEAST` times.

    A step in which a checkpoint is saved says nothing of it: the processes wait for that one together.
    """
    if len(times_s) < LEAST:
        return None
    ordered = sorted(times_s)
    low, high = (ordered[round(share * (len(ordered) - 1))] for share in WITHIN_SIGMA)
    return (high - low) / 2


def unseen_s(profile: Profile, gradient_s: float, gpus: int) -> float:
    """The part of W(N) beyond the waits that runs of other sizes taught `profile.loading`, in s; may be below 0.

    `gradient_s`: the time that loading may overlap with (`iteration.gradient_s`). 0 of a profile whose spread is not known.
    """
    if gpus == 1 or profile.rest_sigma_s is None:
        return 0.0
    loading = profile.loading
    if not any(part.waited > 0 for part in loading.parts):
        return excess_s(profile, gradient_s, gpus)
    if profile.wait_gpus <= 1:
        return 0.0
    waited = math.fsum(p * part.wait_s for p, part in zip(loading.probabilities, loading.parts, strict=True))
    there = excess_s(profile, gradient_s, profile.wait_gpus)
    share = min(1.0, waited / there) if there > 0 else 0.0
    return share * (excess_s(profile, gradient_s, gpus) - there)


def excess_s(profile: Profile, gradient_s: float, processes: float) -> float:
    """W(N), for independent processes. `processes` may be a mean, so no whole number."""
    weights, sigma = profile.loading.probabilities, profile.rest_sigma_s or 0.0
    loads = [(p, part.data_s, part.spread_s) for p, part in zip(weights, profile.loading.parts, strict=True)]
    if profile.pattern is Pattern.OVERLAPPED:
        return _integral(tuple(loads), (1.0, gradient_s, sigma), processes)
    return _integral(tuple((p, mean, math.hypot(spread, sigma)) for p, mean, spread in loads), None, processes)


@lru_cache(maxsize=4096)
def _integral(loads: tuple[Normal, ...], beside: Normal | None, processes: float) -> float:
    """The integral of F - F^N, F of the larger of a load and `beside`, by the trapezoid rule between all points."""
    kinds = [*loads, *([beside] if beside else [])]
    if len(loads) == 1 and not any(sigma for *_, sigma in kinds):
        return 0.0
    least = SHARPEST * max(mean for _, mean, _ in kinds)
    points = sorted({mean + REACH * max(sigma, least) * step for _, mean, sigma in kinds for step in STEPS})
    gaps = []
    for x in points:
        below = _below(x, loads, least) * (_below(x, [beside], least) if beside else 1.0)
        gaps.append(below - below**processes)
    widths = (after - before for before, after in pairwise(points))
    return math.fsum(width * (low + high) / 2 for width, (low, high) in zip(widths, pairwise(gaps), strict=True))


def _below(x: float, kinds: Sequence[Normal], least: float) -> float:
    """How probable a time up to x is; at most 1."""
    found = math.fsum(p * 0.5 * math.erfc((mean - x) / max(sigma, least) / math.sqrt(2)) for p, mean, sigma in kinds)
    return min(1.0, found)
