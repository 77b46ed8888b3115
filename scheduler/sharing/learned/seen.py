"""A signature's measured use, in the steps that a policy was trained with."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

import numpy as np

from scheduler.sharing.model import MEASURES, Profile
from scheduler.sharing.series import Floats, Ints

PCIE_MB_S = 16_000.0
"""The rate of a link of 16 lanes of PCIe 3, the whole of `pcie`."""


def phases_of(samples: Floats, seconds: float, step_s: float, most: int) -> Floats:
    """Return use by phase. Shape (phases, 4): GPU time, memory, SMs, PCIe, in parts of a GPU.

    `samples`: GPU time (0 to 1), memory in parts of the GPU's, PCIe (MB/s), shape (n, 3). Memory counts by the highest in a
    phase. SMs are not measured apart: they count as the GPU's time. A run of more than `most` phases is stretched to `most`
    longer ones.
    """
    phases = int(np.clip(round(seconds / step_s), 1, most))
    edges = np.linspace(0, len(samples), phases + 1)
    first = edges[:-1].astype(np.int64)
    after = np.maximum(first + 1, np.ceil(edges[1:]).astype(np.int64))
    spans = np.stack([first, after], axis=1).ravel()
    padded = np.concatenate([samples, np.zeros((1, samples.shape[1]))])  # a span may end with the last sample
    means = np.add.reduceat(padded, spans, axis=0)[::2] / (after - first)[:, None]
    highest = np.maximum.reduceat(padded[:, 1], spans)[::2]
    found: Floats = np.stack([means[:, 0], highest, means[:, 0], means[:, 2] / PCIE_MB_S], axis=1)
    return found.clip(0.0, 1.0)


def phases_of_profiles(profiles: Sequence[Profile], memory_mib: int, step_s: float, most: int) -> tuple[Floats, Ints]:
    """Return the use by phase of a job with each profile, on a GPU with this memory, and how many phases it has.

    All have known times above 0. Shapes (3, profiles, most + 1), for GPU time, memory and PCIe, zeros after a run's end, and
    (profiles,).
    """
    seconds = np.array([each.seconds for each in profiles], dtype=np.float64)
    phases: Ints = np.rint(seconds / step_s).clip(1, most).astype(np.int64)
    lengths = np.array([each.rows.shape[1] for each in profiles])
    uses, at = np.zeros((3, len(profiles), most + 1)), np.arange(most + 1) < phases[:, None]
    for length in set(lengths.tolist()):
        here = lengths == length
        told = _told_in(np.array([each.rows for each in compress(profiles, here)]), phases[here])
        for held, values in zip(uses, told, strict=True):
            held[at & here[:, None]] = values
    uses[1] /= memory_mib
    uses[2] /= PCIE_MB_S
    return uses.clip(0.0, 1.0, out=uses), phases


def _told_in(rows: Floats, phases: Ints) -> tuple[Floats, Floats, Floats]:
    """Return the GPU's time, the highest memory and PCIe traffic of each phase of each run, one run's after the other's.

    `rows`: shape (runs, measures, samples).
    """
    many, _, length = rows.shape
    run = np.repeat(np.arange(many), phases)
    number = np.arange(len(run)) - np.repeat(np.cumsum(phases) - phases, phases)
    step, last = (length / phases)[run], (number + 1 == phases[run])
    first = (number * step).astype(np.int64)
    end = np.where(last, length, np.ceil((number + 1) * step).astype(np.int64))
    after = np.maximum(first + 1, end)
    spans = (np.stack([first, after], axis=1) + run[:, None] * (length + 1)).ravel()
    flat = np.zeros((len(MEASURES), many, length + 1))  # a span may end with the last sample
    flat[:, :, :length] = rows.transpose(1, 0, 2)
    memory, gpu, pcie = flat.reshape(len(MEASURES), -1)
    busy, traffic = (np.add.reduceat(each, spans)[::2] / (after - first) for each in (gpu, pcie))
    return busy, np.maximum.reduceat(memory, spans)[::2], traffic
