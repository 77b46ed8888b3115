"""The GPUs of a node among which a demand may be given one, and what each choice would leave idle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scheduler.simulator.traces.openb import MILLI

if TYPE_CHECKING:
    from research.simulator.packing.pool import Flags, Ints
    from scheduler.simulator.traces.openb import Demand


def left_idle(gpu: Ints, demand: Demand) -> Ints:
    """Idle compute after each choice: [node, choice, GPU], negative where it does not fit.

    A part of a GPU may go onto any GPU: choice g is GPU g. Whole GPUs do not differ: one choice, the first idle ones.
    """
    if demand.shares:
        return gpu[:, None, :] - demand.gpu_milli * np.eye(gpu.shape[1], dtype=np.int64)[None]
    whole = (gpu == MILLI) if demand.gpus else np.zeros_like(gpu, dtype=np.bool_)
    taken = whole & (np.cumsum(whole, axis=1) <= demand.gpus)
    return (gpu - taken * MILLI)[:, None, :]


def worth_trying(gpu: Ints, demand: Demand) -> Flags:
    """[node, choice] of `left_idle`: those that fit, and of GPUs of one node with as much idle the first alone."""
    if not demand.shares:
        return np.ones((len(gpu), 1), dtype=np.bool_)
    alike = gpu[:, :, None] == gpu[:, None, :]
    earlier = np.tril(np.ones(alike.shape[1:], dtype=np.bool_), -1)
    tried: Flags = (gpu >= demand.gpu_milli) & ~(alike & earlier).any(axis=2)
    return tried
