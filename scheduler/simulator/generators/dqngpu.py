"""DqnGPU's workloads (4.1, Table 2): 30 jobs of eleven applications, drawn from five groups by how much they use.

The paper names the applications, gives the side of its two limits on which each lies (40 % GPU use, 50 % GPU memory), and shows
four series: training holds its GPU and memory from the moment that its data are loaded; LAMMPS' memory rises from 363 to 8 499 MB
with all of the GPU used at its peak, about 40 % on average; QMCPACK uses the GPU in three stages, and memory (5 135 MB) from
its middle on. Drawn to that; the rest (lengths, SMs, PCIe) is ours. `gromacs` takes longer than `alexnet` and so little memory
that three run together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from scheduler.sharing.series import Floats
from scheduler.simulator.sharing.world import SharingJob, Usage

GPU_MIB = 12_288
"""The paper's card: it used up to 11 755 MB."""
PHASE_S = 5.0
JOBS = 30
NOISE = 0.02


@dataclass(frozen=True, slots=True)
class App:
    """GPU time and memory while it computes, in parts of a GPU; SMs per GPU time; PCIe; seconds on its own GPU; its shape."""

    gpu: float
    memory: float
    core: float
    pcie: float
    seconds: float
    shape: str


APPS = {
    "googlenet": App(0.48, 0.42, 0.85, 0.20, 110, "trains"),
    "alexnet": App(0.36, 0.45, 0.70, 0.35, 60, "trains"),
    "vgg11": App(0.75, 0.62, 0.90, 0.25, 150, "trains"),
    "vgg16": App(0.88, 0.72, 0.90, 0.20, 200, "trains"),
    "resnet50": App(0.70, 0.57, 0.85, 0.20, 150, "trains"),
    "resnet101": App(0.80, 0.66, 0.90, 0.15, 190, "trains"),
    "resnet152": App(0.85, 0.75, 0.90, 0.15, 230, "trains"),
    "lammps": App(1.00, 0.69, 0.80, 0.10, 140, "rises"),
    "gromacs": App(0.29, 0.15, 0.80, 0.15, 95, "waves"),
    "qmcpack": App(0.85, 0.42, 0.85, 0.08, 190, "stages"),
    "hoomd": App(0.52, 0.18, 0.80, 0.06, 120, "waves"),
}
GROUPS = {
    "heavy": ("vgg11", "vgg16", "resnet50", "resnet101", "resnet152", "qmcpack", "hoomd", "lammps"),
    "light": ("alexnet", "gromacs"),
    "memory-heavy": ("vgg11", "vgg16", "resnet50", "resnet101", "resnet152"),
    "memory-light": ("alexnet", "googlenet", "qmcpack", "hoomd", "gromacs"),
    "random": tuple(APPS),
}


def _trains(app: App, phases: int, rng: Generator) -> tuple[Floats, Floats]:
    """Data are loaded first, for a tenth to a sixth of the time."""
    loading = np.arange(phases) < max(2, round(phases * rng.uniform(0.10, 0.16)))
    return np.where(loading, 0.05, app.gpu), np.where(loading, 0.3 * app.memory, app.memory)


def _rises(app: App, phases: int, rng: Generator) -> tuple[Floats, Floats]:
    """Memory grows to its peak, where all of the GPU is used."""
    at = (np.arange(phases) + 1.0) / phases
    return app.gpu * (0.15 + 0.85 * at ** rng.uniform(2.0, 2.6)), app.memory * np.maximum(0.043, at)


def _stages(app: App, phases: int, rng: Generator) -> tuple[Floats, Floats]:
    """Three stages of GPU use; memory from the middle on."""
    at = np.arange(phases) / phases
    first, second = rng.uniform(0.28, 0.36), rng.uniform(0.62, 0.70)
    gpu = np.select([at < first, at < second], [0.25 * app.gpu, 0.60 * app.gpu], app.gpu)
    return gpu, np.where(at < 0.5, 0.02, app.memory)


def _waves(app: App, phases: int, rng: Generator) -> tuple[Floats, Floats]:
    """Slow waves of GPU use by a tenth; memory stays."""
    wave = np.sin(2 * np.pi * (np.arange(phases) / rng.uniform(8, 12) + rng.random()))
    return app.gpu * (1.0 + 0.1 * wave), np.full(phases, app.memory)


SHAPES: dict[str, Callable[[App, int, Generator], tuple[Floats, Floats]]] = {
    "trains": _trains,
    "rises": _rises,
    "stages": _stages,
    "waves": _waves,
}


def used_by(app: App, rng: Generator) -> Floats:
    """Return one run's use of GPU time, memory, SMs and PCIe, in parts of a GPU. Shape (phases, 4)."""
    phases = max(8, round(app.seconds * rng.uniform(0.9, 1.1) / PHASE_S))
    gpu, memory = SHAPES[app.shape](app, phases, rng)
    gpu = gpu * rng.uniform(0.95, 1.05) * (1.0 + NOISE * rng.standard_normal(phases))
    memory = memory * rng.uniform(0.92, 1.08)
    pcie = np.where(gpu < 0.1, min(0.8, 2.0 * app.pcie), app.pcie)
    parts: Floats = np.clip(np.stack([gpu, memory, app.core * gpu, pcie], axis=1), 0.0, 1.0)
    return parts


def dqngpu_jobs(group: str, rng: Generator, count: int | None = None) -> list[SharingJob]:
    """Return `count` (30) jobs of a group, all there from the start; each asks for its highest memory.

    Raises KeyError for a group that is none.
    """
    names = GROUPS[group]
    jobs = []
    for key in range(JOBS if count is None else count):
        name = names[int(rng.integers(len(names)))]
        parts = used_by(APPS[name], rng)
        jobs.append(SharingJob(key, Usage(name, parts, PHASE_S), 0.0, int(np.ceil(parts[:, 1].max() * GPU_MIB))))
    return jobs
