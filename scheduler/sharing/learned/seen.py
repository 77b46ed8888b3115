"""What a signature was seen to use, in the steps that a policy was trained with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from scheduler.sharing.model import Profile
    from scheduler.sharing.series import Floats

PCIE_MB_S = 16_000.0
"""Of a link of 16 lanes of PCIe 3: what `pcie` is a part of."""


def phases_of(samples: Floats, seconds: float, step_s: float, most: int) -> Floats:
    """Return use by phase. Shape (phases, 4): GPU time, memory, SMs, PCIe, in parts of a GPU.

    `samples`: GPU time (0 to 1), memory in parts of the GPU's, PCIe (MB/s), shape (n, 3). Memory counts by the highest
    in a phase. SMs are not measured apart: they count as the GPU's time. A run of more
    than `most` phases is told in `most` longer ones.
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


def phases_of_profile(profile: Profile | None, memory_mib: int, step_s: float, most: int) -> Floats | None:
    """Return the use by phase of a job with such a profile, on a GPU of so much memory; None where that is not known."""
    if profile is None or profile.seconds is None or profile.seconds <= 0:
        return None
    own = profile.series
    samples = np.stack([own["gpu"], np.asarray(own["memory_mib"]) / memory_mib, own["pcie_mb_s"]], axis=1)
    return phases_of(samples, profile.seconds, step_s, most)
