"""DqnGPU's rivals pick the waiting jobs that start on the one GPU (DqnGPU 4.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scheduler.simulator.sharing.world import MEMORY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.sharing.series import Floats
    from scheduler.simulator.sharing.one_gpu import OneGpu


def sjf(gpu: OneGpu) -> list[int]:
    """Return the shortest job, when nobody runs: one at a time."""
    if len(gpu.world.running()) or not gpu.waiting:
        return []
    return [min(gpu.waiting, key=lambda job: (gpu.world.jobs[job].usage.alone_s, job))]


def tetris(gpu: OneGpu) -> list[int]:
    """Return the job whose mean use aligns best (dot product) with what is idle, of those that fit in every resource.

    Of all that wait, not of the slots alone. Memory counts by its highest use: a packer that lets jobs crash would be none.
    """
    running = [int(job) for job in gpu.world.running()]
    idle = 1.0 - sum((_typical(gpu, job) for job in running), np.zeros(4))
    fitting = [job for job in gpu.waiting if (_typical(gpu, job) <= idle + 1e-9).all()]
    if not fitting:
        return [] if running or not gpu.waiting else [gpu.waiting[0]]
    return [max(fitting, key=lambda job: (float(_typical(gpu, job) @ idle), -job))]


def _typical(gpu: OneGpu, job: int) -> Floats:
    parts = gpu.world.jobs[job].usage.parts
    found: Floats = parts.mean(axis=0)
    found[MEMORY] = parts[:, MEMORY].max()
    return found


class PairTable:
    """What the whole table of pairs would say: two at a time, those with the greatest speeds together, nobody below `least`."""

    def __init__(self, speeds: Mapping[tuple[str, str], float], least: float = 1.0 / 1.2) -> None:
        self._speeds, self._least = speeds, least

    def __call__(self, gpu: OneGpu) -> list[int]:
        running = [int(job) for job in gpu.world.running()]
        if len(running) > 1 or not gpu.waiting:
            return []
        firsts = running or gpu.waiting
        pairs = [(self._together(gpu, a, b), -a, -b) for a in firsts for b in gpu.waiting if a != b]
        best, first, second = max(pairs, default=(0.0, 0, 0))
        if best > 1.0:
            return [-second] if running else [-first, -second]
        return [] if running else [max(gpu.waiting, key=lambda job: (gpu.world.jobs[job].usage.alone_s, -job))]

    def _together(self, gpu: OneGpu, a: int, b: int) -> float:
        """The two speeds' sum; 0 where one would be below the least, or memory is not enough."""
        if gpu.world.jobs[a].memory_mib + gpu.world.jobs[b].memory_mib > gpu.world.memory_mib:
            return 0.0
        one, other = gpu.world.jobs[a].usage.signature, gpu.world.jobs[b].usage.signature
        speeds = self._speeds.get((one, other), 0.0), self._speeds.get((other, one), 0.0)
        return sum(speeds) if min(speeds) >= self._least else 0.0
