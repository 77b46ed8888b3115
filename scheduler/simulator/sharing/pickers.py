"""Pick the waiting jobs that start on the one GPU: by Kube-Knots' policies, or as the learned agent does (DqnGPU 4.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from scheduler.sharing.measured import NOTHING, Measured
from scheduler.sharing.model import Asker, Profile, Resident, SharedGpu
from scheduler.sharing.sharing import POLICIES, share
from scheduler.simulator.sharing.world import MEMORY

if TYPE_CHECKING:
    from scheduler.sharing.learned.training import Network
    from scheduler.simulator.sharing.one_gpu import OneGpu

WINDOW = 5
"""Samples of the GPU's memory that a forecast looks at."""


class Picker(Protocol):
    def __call__(self, gpu: OneGpu) -> list[int]:
        """Return the waiting jobs that start now; nobody: let a step pass."""


class Sharing:
    """One of `scheduler.sharing`'s policies, with every signature known. `measured`: the pairs that it knows."""

    def __init__(self, name: str, measured: Measured = NOTHING) -> None:
        self._policy, self._measured = POLICIES[name](), measured
        self._crashed: set[int] = set()
        self._profiles: dict[int, Profile] = {}

    def __call__(self, gpu: OneGpu) -> list[int]:
        if not gpu.waiting:
            return []
        memory_mib = gpu.world.memory_mib
        running = gpu.world.running()
        using = gpu.world.demands(running)[:, MEMORY] * memory_mib
        residents = tuple(
            Resident(self._asker(gpu, int(job)), int(gpu.world.grant_mib[job]), float(used))
            for job, used in zip(running, using, strict=True)
        )
        samples = np.array([float(used[MEMORY]) * memory_mib for used in gpu.used[-WINDOW:]])
        self._crashed |= {job for job in gpu.waiting if job in gpu.started_s}
        askers = [self._asker(gpu, job) for job in gpu.waiting]
        shared = share(self._policy, askers, [SharedGpu(0, memory_mib, residents, samples)], measured=self._measured)
        for harvest in shared.harvests:
            gpu.world.grant_mib[harvest.job] = harvest.grant_mib
        for each in shared.joined:
            gpu.grants[each.job] = each.grant_mib
        return [each.job for each in shared.joined]

    def _asker(self, gpu: OneGpu, number: int) -> Asker:
        job = gpu.world.jobs[number]
        if number not in self._profiles:
            self._profiles[number] = job.usage.profile(gpu.world.memory_mib)
        return Asker(
            number,
            job.memory_mib,
            job.usage.signature,
            compute=0,
            whole_request=number in self._crashed,
            profile=self._profiles[number],
        )


def played(gpu: OneGpu, network: Network) -> OneGpu:
    """Run all jobs as the learned policy prefers: of the allowed actions the likeliest. Returns the GPU as it is at the end."""
    while not gpu.over:
        state, may = gpu.seen()
        shares, _ = network.judged(state[None], may[None])
        gpu.act(int(np.argmax(shares[0])))
    return gpu


def placed(gpu: OneGpu, pick: Picker) -> OneGpu:
    """Run all jobs as the picker says. Returns the GPU as it is at the end."""
    while not gpu.over:
        chosen = pick(gpu)
        if chosen:
            gpu.start(chosen)
        else:
            gpu.step()
    return gpu
