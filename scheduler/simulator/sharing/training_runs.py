"""The workloads that train and judge learned policies: one GPU, jobs drawn from a seed, a law of interference.

DqnGPU starts subsets of the slots and looks at use over time; DeepRM, as the paper runs it, starts one job at a time and looks at
each job's highest or mean use throughout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from scheduler.copies import replace
from scheduler.sharing.learned.images import Frame, Limits
from scheduler.sharing.learned.training import Recipe, Training
from scheduler.simulator.generators.dqngpu import GPU_MIB, GROUPS, PHASE_S, dqngpu_jobs
from scheduler.simulator.sharing.laws import InTurns, Law
from scheduler.simulator.sharing.one_gpu import Observation, OneGpu, Pay
from scheduler.simulator.sharing.pairs import MEMORY_MIB, PairWorld
from scheduler.simulator.sharing.world import SharingJob, Usage

LAW = InTurns(switching=0.05, crowding=1.0)
"""With a use of the GPU fitted for each job, no other constants explain more of Gavel's V100 pairs."""
SLOTS = 5
LONGEST = 100
LIMITS = Limits(slowest=1.6, longest=LONGEST, in_time=1.2)
"""Jobs may together ask for a fifth more of the resources taken in turns: two are then slowed by 1.65 at most."""
GAIN = 0.8
"""A job that would add less pace than this had better wait: measured on other workloads than those that judge policies."""
OBSERVATIONS = {
    "dqn": Observation(Frame(SLOTS), replace(LIMITS, gain=GAIN)),
    "deeprm-max": Observation(Frame(SLOTS, together=False), LIMITS, "max"),
    "deeprm-mean": Observation(Frame(SLOTS, together=False), LIMITS, "mean"),
}
USE_ONLY = Observation(Frame(SLOTS), Limits(longest=LONGEST, in_time=1.2, gain=GAIN))
"""Nobody's pace is bounded: the jobs were seen, and the law is not ours."""
PAY, PAY_FOR_HARM = Pay(total=1.0, waiting=0.0), Pay(total=1.0, waiting=0.0, harm=40.0)
RECIPE = Recipe(updates=40, workloads=5, gamma=1.0, unit=50.0, rate=2e-3)
TAUGHT_JOBS = 30


class TrainingData(Protocol):
    """Workloads by number, and their entry in the training record."""

    @property
    def observation(self) -> Observation: ...

    def __call__(self, seed: int) -> OneGpu: ...

    def about(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Groups:
    """DqnGPU's five groups (or those named), on the law fitted to measured pairs."""

    observation: Observation = OBSERVATIONS["dqn"]
    names: tuple[str, ...] = tuple(GROUPS)

    def __call__(self, seed: int) -> OneGpu:
        rng = np.random.default_rng(seed)
        return OneGpu(
            dqngpu_jobs(self.names[int(rng.integers(len(self.names)))], rng), GPU_MIB, LAW, self.observation, PAY
        )

    def about(self) -> dict[str, Any]:
        return {"source": "generator", "groups": list(self.names), "step_s": PHASE_S}


@dataclass(frozen=True, slots=True)
class Pairs:
    """Jobs of a table of measured pairs. Taught are those that are `known`; of the others the law thinks by use."""

    world: PairWorld
    observation: Observation = USE_ONLY
    pay: Pay = PAY_FOR_HARM

    def __call__(self, seed: int) -> OneGpu:
        law = self.world.law(self.world.known, LAW)
        told = self.world.told(self.world.known, None)
        return OneGpu(self.world.jobs(np.random.default_rng(seed)), MEMORY_MIB, law, self.observation, self.pay, told)

    def about(self) -> dict[str, Any]:
        return {
            "source": "pairs",
            "known": len(self.world.known),
            "measured": len(self.world.speeds),
            "step_s": PHASE_S,
        }


@dataclass(frozen=True, slots=True)
class Seen:
    """Jobs as a cluster's own were seen to run (`uses`, in phases of `step_s`)."""

    uses: Sequence[Usage]
    memory_mib: int
    step_s: float
    law: Law = LAW
    observation: Observation = USE_ONLY

    def __call__(self, seed: int) -> OneGpu:
        drawn = np.random.default_rng(seed).integers(0, len(self.uses), TAUGHT_JOBS)
        uses = [self.uses[int(each)] for each in drawn]
        peaks = [int(np.ceil(use.parts[:, 1].max() * self.memory_mib)) for use in uses]
        jobs = [SharingJob(key, use, 0.0, peak) for key, (use, peak) in enumerate(zip(uses, peaks, strict=True))]
        return OneGpu(jobs, self.memory_mib, self.law, self.observation, PAY)

    def about(self) -> dict[str, Any]:
        return {"source": "telemetry", "signatures": len(self.uses), "step_s": self.step_s}


def training_begin(data: TrainingData, seed: int, updates: int | None = None) -> Training:
    """Return a training at its beginning. `updates`: other than the recipe's."""
    recipe = RECIPE if updates is None else replace(RECIPE, updates=updates)
    return Training(data.observation.frame, data, recipe, seed)
