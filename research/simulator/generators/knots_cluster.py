"""Kube-Knots' 520 trainings and 1 400 inference tasks on 32 nodes of 8 GPUs (V-C), drawn to its text.

It names counts, 12 hours of arrivals, minutes to hours for a training (Tiresias' models), milliseconds to seconds for
inference with queries of 10 to 50 ms (VI-E), and frameworks that take memory as they grow and keep it (V-B). Everything else
here is ours. A task has one GPU, as jobs that share have in the service.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from research.simulator.generators.knots import GPU_MIB
from scheduler.simulator.sharing.world import SharingJob, Usage

if TYPE_CHECKING:
    from numpy.random import Generator

    from scheduler.sharing.series import Floats

TRAININGS, INFERENCES, HOURS = 520, 1400, 12.0
PHASE_S = 5.0
MODELS = {
    "vgg19": (0.92, 0.42),
    "vgg16": (0.90, 0.39),
    "vgg11": (0.85, 0.34),
    "alexnet": (0.55, 0.18),
    "resnet152": (0.90, 0.38),
    "resnet101": (0.85, 0.32),
    "resnet50": (0.78, 0.24),
    "inception4": (0.82, 0.30),
    "inception3": (0.75, 0.22),
    "googlenet": (0.60, 0.16),
}
"""Tiresias' ten models: use of the GPU while training, and memory once all is taken, in parts of a GPU."""
QUERIES = {
    "face": (0.30, 50),
    "imc": (0.30, 45),
    "key": (0.20, 30),
    "ner": (0.15, 20),
    "pos": (0.15, 15),
    "chl": (0.12, 10),
}
"""Djinn and Tonic's: use of the GPU while answering, and milliseconds for a query alone."""
QUERY_MEMORY = 0.08
SHORT = 0.6
"""The part of the trainings that take minutes and not hours."""
OVERSTATED = 1.25


def training_usage(name: str, phases: int, rng: Generator) -> Floats:
    """Return a training's use: data are read and memory is taken, then epochs, each ending with an evaluation."""
    gpu, memory = MODELS[name]
    at = np.arange(phases)
    taking = max(1, int(rng.uniform(0.03, 0.10) * phases))
    filled = np.minimum(1.0, 0.2 + 0.8 * at / taking)
    evaluating = (at % max(4, phases // int(rng.integers(5, 12)))) >= max(4, phases // 12) * 0.9
    busy = (
        gpu
        * np.where(evaluating, 0.6, 1.0)
        * (1.0 + 0.05 * rng.standard_normal(phases))
        * np.minimum(1.0, filled + 0.3)
    )
    pcie = np.where(at < taking, 0.5, 0.15) * (1.0 + 0.2 * rng.standard_normal(phases))
    parts: Floats = np.clip(np.stack([busy, memory * filled, 0.8 * busy, pcie], axis=1), 0.0, 1.0)
    return parts


def _training(key: int, at_s: float, rng: Generator) -> SharingJob:
    name = sorted(MODELS)[int(rng.integers(len(MODELS)))]
    minutes = rng.uniform(5, 60) if rng.random() < SHORT else rng.uniform(120, 600)
    short = "short" if minutes <= 60 else "long"
    usage = Usage(f"{name}-{short}", training_usage(name, int(minutes * 60 / PHASE_S), rng), PHASE_S)
    return SharingJob(key, usage, at_s, int(min(1.0, OVERSTATED * MODELS[name][1]) * GPU_MIB))


def _inference(key: int, at_s: float, rng: Generator) -> SharingJob:
    """Answer one query or some hundred; weights come first, then the GPU computes."""
    name = sorted(QUERIES)[int(rng.integers(len(QUERIES)))]
    gpu, query_ms = QUERIES[name]
    queries = int(np.exp(rng.uniform(0.0, np.log(200.0))))
    parts = np.array([[0.02, 0.5 * QUERY_MEMORY, 0.02, 0.7], *([[gpu, QUERY_MEMORY, 0.7 * gpu, 0.03]] * 4)])
    usage = Usage(f"{name}-query", parts, queries * query_ms / 1000.0 / len(parts))
    memory_mib = int(OVERSTATED * QUERY_MEMORY * GPU_MIB)
    return SharingJob(key, usage, at_s, memory_mib, critical=True, query_ms=float(query_ms))


def knots_cluster(rng: Generator, *, part: float = 1.0) -> list[SharingJob]:
    """Return the workload, or a `part` of its tasks and hours (for so many fewer GPUs, not here): both grow with the root.

    Arrivals follow a day's rise and fall, with gaps that spread as an exponential's. Raises ValueError for a part that is
    not above 0 and at most 1.
    """
    if not 0.0 < part <= 1.0:
        raise ValueError(f"a part of {part} of the workload")
    counts = max(1, round(TRAININGS * part)), max(1, round(INFERENCES * part))
    kinds = rng.permutation(np.repeat([0, 1], counts))
    drawn = np.sort(_day(rng.random(len(kinds)))) * HOURS * 3600.0
    return [
        (_training, _inference)[kind](key, float(at_s), rng)
        for key, (kind, at_s) in enumerate(zip(kinds, drawn, strict=True))
    ]


def _day(uniform: Floats) -> Floats:
    """Moments of a day from 0 to 1 whose density is `1 - 0.8 cos(2 pi t)`: the quantiles of uniform draws."""
    at = np.linspace(0.0, 1.0, 2001)
    found: Floats = np.interp(uniform, at - 0.8 * np.sin(2 * np.pi * at) / (2 * np.pi), at)
    return found
