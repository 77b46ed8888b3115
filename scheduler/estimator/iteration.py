"""The theory layer's iteration model (Hops 3.5, eq. 1, 2, 4, 5; algorithms.md section 2). All times in seconds.

    T_iter = max(T_d, max(T_b + 0.2*T_c, T_c) + T_u) + T_f + T_w      pattern 1: data loading overlaps the backward pass
    T_iter = T_d + max(T_b + 0.2*T_c, T_c) + T_u + T_f + T_w          pattern 2: it does not
    T_iter = T_d + T_f                                                a job that only infers
    T_c    = params / B_link * (N-1)/N on one node, params / B_net over several; B in parameters per second
    throughput = batch_size / (p_hit * E(T_iter | hit) + p_miss * E(T_iter | miss))   per GPU

Given hit or miss T_d is normal, so E max(T_d, c) has a closed form; it is used instead of max(E T_d, c).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduler.estimator.waiting import unseen_s
from scheduler.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scheduler.model.speeds import Link, Profile

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
