"""Training speed from measured step and sync times, and the goodput that comes of it (Pollux, OSDI '21; Sia, SOSP '23).

A step on r GPUs with a share of b samples each takes t(b), of which s(b) is synchronising; k steps may be accumulated
before one is synchronised, and then an iteration with the batch size B = r*b*(k+1) takes

    t_iter = t + k*(t - s)

A larger B needs fewer iterations to train, though not in proportion. With I(B) the iterations of a whole training, P those
at the smallest batch size M0, as measured:

    goodput = P*M0 / (I(B) * t_iter)        samples a second, each worth one at M0
    statistical efficiency = P*M0 / (I(B) * B)

The efficiency is that of the whole training: while a job trains, its gradients' noise and so its efficiency change; the mean
is taken, for a law's rate does not depend on how far a job is.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from scheduler.simulator.world.truth import Spot

TRIED_BATCH_SIZES = 50
"""Batch sizes, equally spaced by ratio, among which an adaptive job takes the best for its GPUs (as Pollux does)."""

ROUNDING = 1e-8

Shape = tuple[int, ...]
"""GPUs on each node, in node order."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Step and sync times (s) by the samples of one GPU, ascending; linear between them, constant beyond."""

    batches: tuple[float, ...]
    steps_s: tuple[float, ...]
    syncs_s: tuple[float, ...]

    def at(self, batch: float) -> tuple[float, float]:
        step, sync = (float(np.interp(batch, self.batches, times)) for times in (self.steps_s, self.syncs_s))
        return step, sync


@dataclass(frozen=True, slots=True)
class Blend:
    """A weighted mean of curves."""

    parts: tuple[tuple[float, Curve], ...]

    @property
    def smallest(self) -> float:
        return max(curve.batches[0] for _, curve in self.parts)

    @property
    def largest(self) -> float:
        return min(curve.batches[-1] for _, curve in self.parts)

    def at(self, batch: float) -> tuple[float, float]:
        times = [(weight, curve.at(batch)) for weight, curve in self.parts]
        return sum(w * step for w, (step, _) in times), sum(w * sync for w, (_, sync) in times)


@dataclass(frozen=True, eq=False)
class Speeds:
    """One GPU type's measurements: by shape (up to rotation), and by (nodes, GPUs) in the mean of the shapes."""

    shapes: Mapping[Shape, Curve]
    counts: Mapping[tuple[int, int], Curve]

    @cached_property
    def node_gpus(self) -> int:
        """GPUs of a node, as far as they were measured."""
        return max(-(-gpus // nodes) for nodes, gpus in self.counts)

    @cached_property
    def most_nodes(self) -> int:
        """Nodes that were measured together."""
        return max(nodes for nodes, _ in self.counts)

    @cached_property
    def _gpus_by_nodes(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for nodes, gpus in sorted(self.counts):
            found.setdefault(nodes, []).append(gpus)
        return found

    def blend(self, shape: Shape) -> Blend:
        """Times for a shape: as measured, else between its neighbours by GPUs on as many nodes, else by nodes."""
        if (curve := self.shapes.get(canonical(shape))) is not None:
            return Blend(((1.0, curve),))
        nodes, gpus = len(shape), sum(shape)
        return Blend(
            tuple(
                (share * part, self.counts[each, count])
                for share, each in _between(list(self._gpus_by_nodes), nodes)
                for part, count in _between(self._gpus_by_nodes[each], gpus * each / nodes)
            )
        )


def canonical(shape: Shape) -> Shape:
    """The smallest of a shape's rotations: a ring of nodes has no first one."""
    return min(shape[k:] + shape[:k] for k in range(len(shape)))


def _between(marks: Sequence[int], value: float) -> list[tuple[float, int]]:
    """The marks on both sides of a value with their shares; only the nearest one where it is a mark or beyond them."""
    after = bisect_left(marks, value)
    if after == len(marks):
        return [(1.0, marks[-1])]
    if after == 0 or marks[after] == value:
        return [(1.0, marks[after])]
    low, high = marks[after - 1], marks[after]
    share = (value - low) / (high - low)
    return [(1 - share, low), (share, high)]


@dataclass(frozen=True, slots=True)
class Training:
    """Iterations of a whole training by batch size, ascending; `progress`: P, those at the smallest."""

    batches: tuple[float, ...]
    iterations: tuple[float, ...]
    progress: float

    @property
    def smallest(self) -> float:
        return self.batches[0]

    @property
    def largest(self) -> float:
        return self.batches[-1]

    @property
    def samples(self) -> float:
        """The work: P * M0."""
        return self.progress * self.smallest

    def iterations_at(self, batch: float) -> float:
        """I(B), linear between the batch sizes that were measured."""
        return float(np.interp(batch, self.batches, self.iterations))


@dataclass(frozen=True, eq=False, slots=True)
class Application:
    """A model with its data. `slowdown`: how much slower than its profile it is in reality."""

    name: str
    training: Training
    speeds: Mapping[str, Speeds]  # by GPU type
    slowdown: float = 1.0
    _known: dict[tuple[str, Shape, float | None], float] = field(default_factory=dict, repr=False)

    def goodput(self, gpu_type: str, shape: Shape, batch: float | None) -> float:
        """Samples (at M0) a second with a given batch size; None = the best for these GPUs."""
        key = (gpu_type, shape, batch)
        if key not in self._known:
            times = self.speeds[gpu_type].blend(shape)
            gpus, most = sum(shape), self.training.largest
            least = min(most, max(self.training.smallest, times.smallest * gpus))
            sizes = np.geomspace(least, most, TRIED_BATCH_SIZES).tolist()
            tried: list[float] = sizes if batch is None else [batch]
            self._known[key] = max(self._goodput(times, gpus, each) for each in tried)
        return self._known[key]

    def _goodput(self, times: Blend, gpus: int, batch: float) -> float:
        share = batch / gpus
        accumulated = math.ceil(share / times.largest - ROUNDING) - 1
        if gpus == 1 and batch > self.training.smallest + ROUNDING:
            accumulated = max(1, accumulated)  # one step does not show the gradients' noise (Pollux)
        once = math.ceil(share / (accumulated + 1) - ROUNDING)
        once = max(1, min(once, int(self.training.largest / (gpus * (accumulated + 1)))))
        step, sync = times.at(once)
        iteration_s = step + accumulated * (step - sync)
        iterations = self.training.iterations_at(gpus * once * (accumulated + 1))
        return self.training.samples / (iterations * iteration_s * self.slowdown)


@dataclass(frozen=True, slots=True)
class Goodput:
    """The law of a job of the application. `batch`: its batch size; None = it is adapted to its GPUs."""

    application: Application
    batch: float | None = None

    def rate(self, spots: Sequence[Spot]) -> float:
        """Samples a second. Nodes of several types go at the pace of the slowest, as does a slow node of a type.

        ValueError for a GPU type on which the application was not measured.
        """
        used = [spot for spot in spots if spot.gpus]
        shape = tuple(spot.gpus for spot in used)
        types = sorted({spot.gpu_type or "" for spot in used})
        if missing := [each for each in types if each not in self.application.speeds]:
            profiled = ", ".join(sorted(self.application.speeds))
            raise ValueError(f"{self.application.name} was not measured on GPU type {missing[0]}, only on {profiled}")
        pace = min(spot.speed for spot in used)
        return pace * min(self.application.goodput(each, shape, self.batch) for each in types)

    def known(self, sizes: Iterable[int]) -> dict[tuple[str, int, int], float]:
        """Goodput per GPU by (GPU type, GPUs, nodes).

        On as few nodes as hold the GPUs these are filled one after another; over more, up to the most nodes measured, the
        GPUs are spread as evenly as they can be.
        """
        found: dict[tuple[str, int, int], float] = {}
        for gpu_type, speeds in self.application.speeds.items():
            for size in sorted(sizes):
                whole, rest = divmod(size, speeds.node_gpus)
                filled = (speeds.node_gpus,) * whole + ((rest,) if rest else ())
                more = range(len(filled) + 1, min(size, speeds.most_nodes) + 1)
                for shape in (
                    filled,
                    *(tuple(size // nodes + (place < size % nodes) for place in range(nodes)) for nodes in more),
                ):
                    found[gpu_type, size, len(shape)] = self.application.goodput(gpu_type, shape, self.batch) / size
        return found
