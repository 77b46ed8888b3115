"""A training that goes from epoch to epoch, with the gradients' noise that was measured in each (Pollux, OSDI '21).

With the batch size B = m * M0, M0 the smallest, gradients of squared norm s and variance v in the present epoch:

    gain    = (v + s) / (v / m + s)         iterations at M0 that one iteration is worth
    goodput = gain / (t_iter * slowdown)    iterations at M0 a second; t_iter as in `scheduler.simulator.world.profiled`

Noise grows while a job trains, so the best batch size grows, and with it the number of GPUs that serve the job well. In
our own engine the mean over the training is taken instead, for there a law's rate does not depend on how far a job is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from scheduler.simulator.world.profiled import ROUNDING, TRIED_BATCH_SIZES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.simulator.world.profiled import Application, Shape


class Steps(NamedTuple):
    """What a GPU does in an iteration: so many samples at `once`, `accumulated` times more before all synchronise."""

    once: int
    accumulated: int

    def batch(self, gpus: int) -> int:
        return gpus * self.once * (self.accumulated + 1)


class Noise(NamedTuple):
    """Of the gradients: the mean's squared norm, and the variance at M0."""

    square: float
    variance: float


@dataclass(frozen=True, eq=False, slots=True)
class EpochTraining:
    """`ends`: progress (iterations at M0) at each epoch's end; `squares`, `variances`: (batch sizes, epochs)."""

    application: Application
    restart_s: float
    ends: Sequence[float]
    squares: np.ndarray
    variances: np.ndarray
    _best: dict[tuple[str, Shape, int], tuple[float, Steps]] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        return self.application.name

    @property
    def smallest(self) -> float:
        """M0."""
        return self.application.training.smallest

    @property
    def largest(self) -> float:
        return self.application.training.largest

    @property
    def samples(self) -> float:
        """The whole work, in samples at M0."""
        return self.ends[-1] * self.smallest

    def shares(self, gpu_type: str) -> tuple[float, float]:
        """The fewest and most samples of one GPU and step that were measured on the type."""
        curves = self.application.speeds[gpu_type].shapes.values()
        return min(each.batches[0] for each in curves), max(each.batches[-1] for each in curves)

    def room(self, gpu_type: str) -> int:
        """More GPUs of the type than this have no batch size for them."""
        return int(self.largest // self.shares(gpu_type)[0])

    def noise(self, batch: float, epoch: int) -> Noise:
        """Between the batch sizes that were measured it is linear."""
        batches = self.application.training.batches
        square, variance = (float(np.interp(batch, batches, of[:, epoch])) for of in (self.squares, self.variances))
        return Noise(square, variance)

    def times(self, gpu_type: str, shape: Shape, once: float) -> tuple[float, float]:
        """Seconds of a step and of its synchronising, as measured."""
        return self.application.speeds[gpu_type].blend(shape).at(once)

    def rate(self, gpu_type: str, shape: Shape, steps: Steps, epoch: int) -> float:
        """The true goodput in that epoch."""
        step, sync = self.times(gpu_type, shape, steps.once)
        batch = steps.batch(sum(shape))
        total_s = step + steps.accumulated * (step - sync)
        return gain(self.noise(batch, epoch), batch / self.smallest) / (total_s * self.application.slowdown)

    def best(self, gpu_type: str, shape: Shape, epoch: int) -> tuple[float, Steps]:
        """The best goodput there, and how it is had."""
        key = (gpu_type, shape, epoch)
        if key not in self._best:
            blend = self.application.speeds[gpu_type].blend(shape)
            tried = {*self.tried(sum(shape), blend.smallest, blend.largest)}
            self._best[key] = max((self.rate(gpu_type, shape, each, epoch), each) for each in tried)
        return self._best[key]

    def tried(self, gpus: int, least: float, most: float) -> list[Steps]:
        """Those of batch sizes in equal ratios. `least`, `most`: samples of one GPU and step."""
        smallest = min(self.largest, max(self.smallest, least * gpus))
        batches = np.geomspace(smallest, self.largest, TRIED_BATCH_SIZES)
        return [self.steps(float(batch), gpus, most) for batch in batches]

    def steps(self, batch: float, gpus: int, most: float) -> Steps:
        """How so many GPUs share a batch."""
        share = batch / gpus
        accumulated = int(np.ceil(share / most - ROUNDING)) - 1
        if gpus == 1 and batch > self.smallest + ROUNDING:
            accumulated = max(1, accumulated)  # from one step alone the gradients' noise cannot be told (Pollux)
        once = int(np.ceil(share / (accumulated + 1) - ROUNDING))
        return Steps(max(1, min(once, int(self.largest / (gpus * (accumulated + 1))))), accumulated)


def gain(noise: Noise, scale: float) -> float:
    """Iterations at M0 that one at `scale` times that is worth; 1 where nothing was measured but zeros."""
    below = noise.variance / scale + noise.square
    return (noise.variance + noise.square) / below if below > 0 else 1.0
