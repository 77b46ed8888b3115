"""Policies judged on workloads that no policy was trained on, all on the same GPU and law."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from research.simulator.sharing.rivals import PairTable, sjf, tetris
from scheduler.sharing.learned.training import Network
from scheduler.simulator.generators.dqngpu import GPU_MIB, dqngpu_jobs
from scheduler.simulator.sharing.one_gpu import OneGpu
from scheduler.simulator.sharing.pairs import MEMORY_MIB
from scheduler.simulator.sharing.pickers import Sharing, placed, played
from scheduler.simulator.sharing.training_runs import LAW, OBSERVATIONS, Pairs, training_begin

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scheduler.sharing.measured import Measured
    from scheduler.sharing.series import Floats
    from scheduler.simulator.sharing.pairs import PairWorld
    from scheduler.simulator.sharing.pickers import Picker
    from scheduler.simulator.sharing.training_runs import TrainingData
    from scheduler.simulator.sharing.world import SharingJob

MOST_TRIED = 12
PICKERS: dict[str, Callable[[], Picker]] = {
    "sjf": lambda: sjf,
    "tetris": lambda: tetris,
    **{name: partial(Sharing, name) for name in ("res-ag", "cbp", "cbp-pp")},
}


def train(data: TrainingData, seed: int, updates: int | None, tell: Callable[[float], None]) -> list[Floats]:
    """Train to the end and return the network's layers. `tell` hears after each update which part is done."""
    training = training_begin(data, seed, updates)
    while not training.over:
        training.update()
        tell(training.made / training.recipe.updates)
    return training.network.layers


def judged_on_group(policy: str, group: str, seed: int, layers: Sequence[Floats] | None = None) -> dict[str, float]:
    """Return the figures of a policy on one workload. `layers`: of a learned policy's network. Raises KeyError for no policy."""
    jobs = dqngpu_jobs(group, np.random.default_rng(seed))
    if layers is None:
        return placed(OneGpu(jobs, GPU_MIB, LAW), PICKERS[policy]()).figures()
    observation = OBSERVATIONS[policy]
    return played(OneGpu(jobs, GPU_MIB, LAW, observation), Network(observation.frame, layers)).figures()


@dataclass(frozen=True, slots=True)
class Told:
    """The measured pairs that a policy knows, and its limit. `half`: those that uses were fitted to, else all."""

    limit: float | None
    half: bool = True

    def measured(self, world: PairWorld) -> Measured:
        return world.told(world.known if self.half else world.speeds, self.limit)


def judged_on_pairs(
    policy: str,
    world: PairWorld,
    seed: int,
    layers: Sequence[Floats] | None = None,
    count: int = 30,
    told: Told | None = None,
) -> dict[str, float]:
    """Return the figures of a policy on jobs of a table of pairs, all of whose pairs are the truth.

    `told`: of which pairs one of `scheduler.sharing`'s policies is told, as the service tells it; None: of none.
    `throughput`: seconds of work alone per second of the GPU; `unknown_slowdown`: the mean of the jobs that met only neighbours
    beside whom their kind had not been known, 1 where there is none; `unknown_jobs`: how many these are.
    """
    jobs = world.jobs(np.random.default_rng(seed), count)
    law = world.law(world.speeds, LAW)
    if layers is None:
        pick = _picker(policy, world, told)
        gpu = placed(OneGpu(jobs, MEMORY_MIB, law), pick)
    else:
        observation = Pairs(world).observation
        gpu = OneGpu(jobs, MEMORY_MIB, law, observation, measured=world.told(world.known, None))
        gpu = played(gpu, Network(observation.frame, layers))
    kinds = [job.usage.signature for job in jobs]
    strangers = [
        job
        for job, met in enumerate(gpu.met)
        if met and all((kinds[job], kinds[other]) not in world.known for other in met)
    ]
    slowed = gpu.slowdowns()
    return gpu.figures() | {
        "throughput": sum(job.usage.alone_s for job in jobs) / gpu.now_s,
        "unknown_slowdown": float(np.mean([slowed[job] for job in strangers])) if strangers else 1.0,
        "unknown_jobs": float(len(strangers)),
    }


def _picker(policy: str, world: PairWorld, told: Told | None) -> Picker:
    if policy == "pair-table":
        return PairTable(world.speeds)
    return PICKERS[policy]() if told is None else Sharing(policy, told.measured(world))


def optimum_s(world: PairWorld, seed: int, count: int, least: float = 1.0 / 1.2) -> float:
    """Return the least seconds in which so many jobs end alone or in pairs, of all pairings; nobody is slower than `least`.

    A pair begins together, and who is left of it ends alone. Raises ValueError for more than 12 jobs: that would take too long.
    """
    if count > MOST_TRIED:
        raise ValueError(f"{count} jobs have too many pairings to try them all; at most {MOST_TRIED}")
    jobs = world.jobs(np.random.default_rng(seed), count)
    best = {0: 0.0}
    for left in range(1, 1 << count):
        first = (left & -left).bit_length() - 1
        rest = left & (left - 1)
        found = jobs[first].usage.alone_s + best[rest]
        for other in range(first + 1, count):
            if rest >> other & 1:
                pair_s = _pair_s(world, jobs[first], jobs[other], least)
                found = min(found, pair_s + best[rest & ~(1 << other)])
        best[left] = found
    return best[(1 << count) - 1]


def _pair_s(world: PairWorld, one: SharingJob, other: SharingJob, least: float) -> float:
    names = one.usage.signature, other.usage.signature
    speeds = world.speeds.get(names, 0.0), world.speeds.get((names[1], names[0]), 0.0)
    if min(speeds) < least or one.memory_mib + other.memory_mib > MEMORY_MIB:
        return one.usage.alone_s + other.usage.alone_s
    alone = one.usage.alone_s, other.usage.alone_s
    together = min(a / speed for a, speed in zip(alone, speeds, strict=True))
    return together + max(a - together * speed for a, speed in zip(alone, speeds, strict=True))
