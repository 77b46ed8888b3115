"""The theory layer's iteration model (Hops 3.5, eq. 1, 2, 4, 5; algorithms.md section 2). All times in seconds.

    T_iter = max(T_d, max(T_b + 0.2*T_c, T_c) + T_u) + T_f + T_w      pattern 1: data loading overlaps the backward pass
    T_iter = T_d + max(T_b + 0.2*T_c, T_c) + T_u + T_f + T_w          pattern 2: it does not
    T_iter = T_d + T_f                                                a job that only infers
    T_c    = params / B_link * (N-1)/N on one node, params / B_net over several; B in parameters per second
    throughput = batch_size / (p_hit * E(T_iter | hit) + p_miss * E(T_iter | miss))   per GPU

Given hit or miss T_d is normal, so E max(T_d, c) has a closed form; it is used instead of max(E T_d, c).

*T_w*: the wait of a synchronous step for its slowest process, foretold from one process (algorithms.md section 2). *Ours.*

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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from scheduler.pattern import Pattern

if TYPE_CHECKING:
    from scheduler.model.speeds import Link, Profile


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


EXPOSED = 0.2
"""The part of the communication that does not overlap with the backward pass, until a job's own runs tell it (`exposed`)."""
HIDDEN = 0.9
"""Loading that overlaps is taken to be hidden where it took less than this part of the time that hid it."""

RECOGNITION_MARGIN = 1.5
"""How many times worse the other pattern must explain the iterations before one is recognised."""


@dataclass(frozen=True, slots=True)
class Iteration:
    """One instrumented iteration: its modules and how long it took in all."""

    data_s: float
    forward_s: float
    backward_s: float
    update_s: float
    total_s: float
    wait_s: float = 0.0
    communication_s: float = 0.0


def communication_s(parameters: float, link: Link | None, gpus: int, nodes: int) -> float | None:
    """T_c, eq. 2: 0 on one GPU; else None when the number of parameters is not known (0) or no bandwidth was measured."""
    if gpus == 1:
        return 0.0
    needed = None if link is None else link.between_nodes if nodes > 1 else link.within_node
    if needed is None or not parameters:
        return None
    return parameters / needed * (1.0 if nodes > 1 else (gpus - 1) / gpus)


def gradient_s(profile: Profile, communication: float) -> float:
    """max(T_b + 0.2*T_c, T_c) + T_u: the time that data loading may overlap with."""
    exposed = EXPOSED if profile.exposed is None else profile.exposed
    return max(profile.backward_s + exposed * communication, communication) + profile.update_s


def expected_maximum(mean: float, sigma: float, floor: float) -> float:
    """E max(X, floor) for X ~ N(mean, sigma)."""
    if sigma <= 0:
        return max(mean, floor)
    z = (mean - floor) / sigma
    above = 0.5 * math.erfc(-z / math.sqrt(2))
    density = math.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    return mean * above + floor * (1 - above) + sigma * density


def iteration_s(profile: Profile, link: Link | None, gpus: int, nodes: int) -> float | None:
    """E(T_iter), eq. 4; None when no data time is known, or communication is needed and no bandwidth is."""
    infers = profile.pattern is Pattern.INFERENCE
    communication = 0.0 if infers else communication_s(profile.parameters, link, gpus, nodes)
    if not profile.loading.parts or communication is None:
        return None
    gradient = gradient_s(profile, communication)
    expected = 0.0 if infers else unseen_s(profile, gradient, gpus)
    for probability, part in zip(profile.loading.probabilities, profile.loading.parts, strict=True):
        if infers:
            once = part.data_s
        else:
            wait = part.wait_s if gpus > 1 else 0.0
            overlapped = expected_maximum(part.data_s, part.data_sigma_s, gradient)
            once = wait + (overlapped if profile.pattern is Pattern.OVERLAPPED else part.data_s + gradient)
        expected += probability * (once + profile.forward_s)
    return expected


def throughput(profile: Profile, link: Link | None, gpus: int, nodes: int) -> float | None:
    """Samples per second per GPU, eq. 5; None as for `iteration_s`."""
    expected = iteration_s(profile, link, gpus, nodes)
    return None if not expected else profile.batch_size / expected


def exposed(profile: Profile, iterations: Iterable[Iteration]) -> tuple[float, float]:
    """Seconds of communication that made steps longer, and all of them, in iterations of several processes.

    The time of a step beyond its loading, waiting and the modules on one GPU was communication that nothing hid (*ours*): all of
    it where a training exchanges after its backward pass, next to none where it does so meanwhile. A single process cannot tell.
    Iterations whose overlapped loading may have set the pace tell nothing, and count for nothing.
    """
    alone = profile.forward_s + profile.backward_s + profile.update_s
    shown = told = 0.0
    for each in iterations:
        rest = each.total_s - each.wait_s
        if profile.pattern is Pattern.SEQUENTIAL:
            rest -= each.data_s
        elif each.data_s > HIDDEN * (rest - profile.forward_s):
            continue
        shown, told = shown + rest - alone, told + each.communication_s
    return min(max(shown, 0.0), told), told


def recognise(iterations: Sequence[Iteration]) -> Pattern | None:
    """Which pattern explains the recorded totals (least squares); None when neither does clearly better.

    They differ by the data loading that hides behind the backward pass, so a loop with next to no data time tells nothing, and
    either pattern then serves. No backward and no update time at all: it only infers.
    """
    if not iterations:
        return None
    if not any(each.backward_s or each.update_s for each in iterations):
        return Pattern.INFERENCE
    errors = {Pattern.OVERLAPPED: 0.0, Pattern.SEQUENTIAL: 0.0}
    for each in iterations:
        gradient = max(each.backward_s + EXPOSED * each.communication_s, each.communication_s) + each.update_s
        rest = each.forward_s + each.wait_s
        errors[Pattern.OVERLAPPED] += (max(each.data_s, gradient) + rest - each.total_s) ** 2
        errors[Pattern.SEQUENTIAL] += (each.data_s + gradient + rest - each.total_s) ** 2
    best, other = sorted(errors, key=lambda pattern: errors[pattern])
    return best if errors[other] > RECOGNITION_MARGIN**2 * errors[best] else None


def bandwidth(measured: Iterable[tuple[float, float, int]], *, nodes: int = 1) -> float:
    """B from (parameters, seconds, GPUs) of all-reduces, in parameters per second: least squares through the origin.

    On one node a ring moves (N-1)/N of the parameters. ValueError without a measurement that took time.
    """
    points = [(p * (n - 1) / n if nodes == 1 else p, seconds) for p, seconds, n in measured]
    slope_up = math.fsum(x * seconds for x, seconds in points)
    if slope_up <= 0:
        raise ValueError("no all-reduce with parameters, more than one GPU and a time above 0 was measured")
    return math.fsum(x * x for x, _ in points) / slope_up
