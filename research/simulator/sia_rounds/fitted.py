"""What a job's own measurements tell of its speed elsewhere: Pollux' model of a step (OSDI '21, 3.2), fitted to them.

    T_compute = a_c + b_c * share                       share: samples of one GPU and step
    T_network = a + b * max(0, GPUs - 2)                over nodes (a_n, b_n), on one node (a_r, b_r), 0 on one GPU
    T_step    = (T_compute^g + T_network^g)^(1/g)       g from 1 (one after the other) to 10 (at one time)

Fitted is the error of the logarithms, with a little against a large g and against a network that grows with the GPUs. What no
measurement tells stays at its optimistic end: with one share only, half of T_compute is constant; several nodes cost a tenth
more than one node; more GPUs than two cost no more. The minimum is sought by BFGS over their logarithms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from research.simulator.sia_rounds.training import Noise, Steps

    Floats = np.ndarray[Any, np.dtype[np.float64]]

LEAST, MOST = 1e-8, 1e3
STEEPEST = 10.0
FIRST = (0.1, 0.01, 0.1, 0.01, 0.1, 0.01, 1e-3)
"""Where the search begins: the constants in seconds, and g - 1."""
OVER_NODES = 1.1
AGAINST_G, AGAINST_GROWTH = 1e-3, 1e-2
MOST_STEPS, STILL = 120, 1e-6
PROBE = 1e-5


@dataclass(frozen=True, slots=True)
class StepModel:
    """The fitted constants: a_c, b_c, a_n, b_n, a_r, b_r, g - 1."""

    constants: Floats

    def rate(self, nodes: int, gpus: int, once: Floats, accumulated: Floats, gain: Floats) -> Floats:
        """Goodput in iterations at M0 a second, of each way to train."""
        compute, step = _times(self.constants[None], np.full(len(once), nodes), np.full(len(once), gpus), once)
        found: Floats = gain / (step[0] + accumulated * compute[0])
        return found


def fitted(seen: Mapping[tuple[int, int, int], tuple[float, float]]) -> StepModel:
    """The model that suits these measurements: (nodes, GPUs, share) -> seconds of a step and of its synchronising."""
    nodes, gpus, share = np.array(list(seen), dtype=float).T
    step, sync = np.array(list(seen.values()), dtype=float).T
    compute = np.maximum(step - sync, LEAST)
    start, open_to = _opened(nodes, gpus, share, compute)
    fixed = sum(float(~open_to[each]) for each in (2, 4))  # both constants of a network: their ratio says nothing

    def loss(tried: Floats) -> Floats:
        """Of each row of what is open, on the scales of the search."""
        constants = np.tile(start, (len(tried), 1))
        constants[:, open_to] = _back(tried)
        found_compute, found_step = _times(constants, nodes, gpus, share)
        errors = [np.log(found_compute / compute), np.log(found_step / step)]
        growth = (constants[:, 3] / constants[:, 2]) ** 2 + (constants[:, 5] / constants[:, 4]) ** 2 - fixed
        against = AGAINST_G * constants[:, 6] ** 2 + AGAINST_GROWTH * growth
        result: Floats = sum(np.sqrt((each**2).mean(axis=1)) for each in errors) + against
        return result

    found = start.copy()
    found[open_to] = _back(_lowest(loss, np.append(np.log(start[open_to][:-1]), start[-1]))[None])[0]
    if not (nodes > 1).any():
        found[2:4] = np.maximum(found[2:4], OVER_NODES * found[4:6])
    return StepModel(found)


def _opened(nodes: Floats, gpus: Floats, share: Floats, compute: Floats) -> tuple[Floats, np.ndarray[Any, Any]]:
    """Where the search begins, and which constants these measurements tell."""
    start, open_to = np.array(FIRST), np.ones(len(FIRST), dtype=bool)
    if len(set(share)) == 1:
        start[0], open_to[0] = compute.mean() / 2, False
    for first, measured in ((2, nodes > 1), (4, (nodes == 1) & (gpus > 1))):
        if not measured.any():
            start[first : first + 2], open_to[first : first + 2] = LEAST, False
        elif not (gpus > 2).any():
            start[first + 1], open_to[first + 1] = LEAST, False
    return start, open_to


def _back(tried: Floats) -> Floats:
    """The constants from the scales of the search: logarithms, but for g - 1, which is the last."""
    found = np.exp(np.clip(tried, np.log(LEAST), np.log(MOST)))
    found[:, -1] = np.clip(tried[:, -1], 0.0, STEEPEST - 1.0)
    return found


def _times(constants: Floats, nodes: Floats, gpus: Floats, share: Floats) -> tuple[Floats, Floats]:
    """Seconds of computing and of a whole step: (rows of constants, measurements)."""
    a_c, b_c, a_n, b_n, a_r, b_r, more = (constants[:, each, None] for each in range(7))
    g = 1.0 + more
    compute = a_c + b_c * share
    over = np.maximum(gpus - 2, 0)
    network = np.where(nodes > 1, a_n + b_n * over, np.where(gpus > 1, a_r + b_r * over, LEAST))
    most = np.maximum(compute, network)
    return compute, most * ((compute / most) ** g + (network / most) ** g) ** (1.0 / g)


def _lowest(loss: Any, start: Floats) -> Floats:
    """A local minimum by BFGS, with differences for slopes; all that a step needs is asked at once."""
    size = len(start)
    if not size:
        return start
    probes = np.vstack([np.zeros(size), PROBE * np.eye(size), -PROBE * np.eye(size)])
    reach = 0.5 ** np.arange(16)

    def slope(at: Floats) -> tuple[float, Floats]:
        values = loss(at + probes)
        return values[0], (values[1 : size + 1] - values[size + 1 :]) / (2 * PROBE)

    at, inverse = start, np.eye(size)
    value, down = slope(at)
    for _ in range(MOST_STEPS):
        way = -inverse @ down
        if way @ down >= 0:
            way, inverse = -down, np.eye(size)
        way *= min(1.0, 3.0 / max(float(np.abs(way).max()), LEAST))
        tried = loss(at + reach[:, None] * way)
        best = int(tried.argmin())
        if tried[best] > value - STILL * max(1e-3, abs(value)):
            return at
        step = reach[best] * way
        at = at + step
        value, after = slope(at)
        turn, down = after - down, after
        if (product := float(turn @ step)) > 1e-12:
            left = np.eye(size) - np.outer(step, turn) / product
            inverse = left @ inverse @ left.T + np.outer(step, step) / product
    return at


def best(
    model: StepModel, noise: Noise, smallest: float, nodes: int, gpus: int, tried: list[Steps]
) -> tuple[float, Steps]:
    """The best goodput by the model with that noise, and how it is had. `smallest`: M0."""
    once, accumulated = np.array(tried, dtype=float).T
    scale = gpus * once * (accumulated + 1) / smallest
    below = noise.variance / scale + noise.square
    gains = np.where(below > 0, (noise.variance + noise.square) / np.where(below > 0, below, 1.0), 1.0)
    rates = model.rate(nodes, gpus, once, accumulated, gains)
    first = int(rates.argmax())
    return float(rates[first]), tried[first]
