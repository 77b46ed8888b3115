"""DqnGPU's setting: jobs that are all there from the start, one GPU, and an agent that starts some of them (DqnGPU 4).

Times are in steps of `STEP_S`, of which a job's phases are whole numbers. While jobs are started no time passes. A wait lasts
until a job ends, or another subset of the slots may start. If each step were a new choice, an agent that still tries things out
would never be seen to wait for long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from scheduler.sharing.learned.images import (
    RESOURCES,
    STEPS,
    WAIT,
    Frame,
    Limits,
    Reach,
    ahead,
    allowed,
    fitting,
    remembered,
    state,
    taken,
)
from scheduler.sharing.learned.paces import Gains, course
from scheduler.sharing.measured import NOTHING, Measured
from scheduler.sharing.series import Flags, Floats
from scheduler.simulator.sharing.world import GPU, MEMORY, SharingJob, World

if TYPE_CHECKING:
    from scheduler.simulator.sharing.laws import Law

STEP_S = 5.0
NOT_SLOWED = 1.02
"""A job whose slowdown is this or less was not slowed ("2% error", DqnGPU 4.2.2)."""


@dataclass(frozen=True, slots=True)
class Observation:
    """How an agent looks at jobs. `view`: at their use over time, or at their highest or mean use throughout (DeepRM)."""

    frame: Frame = field(default_factory=Frame)
    limits: Limits = field(default_factory=Limits)
    view: str = "over time"

    def of(self, parts: Floats) -> Floats:
        """Return a job's use as it is seen. Shape as given. Raises KeyError for a view that is none."""
        flat = {"over time": None, "max": parts.max(axis=0), "mean": parts.mean(axis=0)}[self.view]
        return parts if flat is None else np.broadcast_to(flat, parts.shape)


@dataclass(frozen=True, slots=True)
class Pay:
    """The cost of a step: `total` for itself, `waiting * sum 1 / T_j` over unfinished jobs (deepRM's, `T_j` in steps), and
    `harm * sum (1 - speed) / T_j` over those that run: their loss to their neighbours.
    """

    total: float = 0.0
    waiting: float = 1.0
    harm: float = 0.0


class OneGpu:
    """The jobs that wait, in their order, and those on the GPU. `seen`, `act`, `over`: an episode of `learned.training`.

    `measured`: the pairs that the agent's mask knows (`Limits.gain`); the law is the truth.
    """

    def __init__(
        self,
        jobs: Sequence[SharingJob],
        memory_mib: int,
        law: Law | None = None,
        observation: Observation | None = None,
        pay: Pay | None = None,
        measured: Measured = NOTHING,
    ) -> None:
        self.world = World(jobs, 1, memory_mib, law)
        self.observation, self.pay = observation or Observation(), pay or Pay()
        least = self.observation.limits.gain
        self._gains = None if least is None else Gains(self.observation.frame, least, measured)
        self.views = [self.observation.of(job.usage.parts) for job in jobs]
        self._images: list[tuple[Floats, float]] = [(ahead(view), float(len(view))) for view in self.views]
        self._reaches = [Reach(view, self.observation.limits) for view in self.views]
        self._added: tuple[tuple[int, ...], Floats] = ((-1,), np.empty(0))
        self._may: tuple[tuple[float, tuple[int, ...]], Flags] = (-1.0, ()), np.empty(0, dtype=bool)
        self.waiting = list(range(len(jobs)))
        self.now_s = 0.0
        self.used: list[Floats] = []
        self.ended_s: dict[int, float] = {}
        self.started_s: dict[int, float] = {}
        self.met: list[set[int]] = [set() for _ in self.views]
        self.crashes = 0
        self.grants: dict[int, int] = {}
        self._weights = np.array([1.0 / max(1, len(job.usage.parts)) for job in jobs])
        self._unfinished = float(self._weights.sum())

    @property
    def over(self) -> bool:
        return len(self.ended_s) == len(self.views)

    @property
    def front(self) -> list[int]:
        """The waiting jobs in the slots."""
        return self.waiting[: self.observation.frame.slots]

    def done(self, job: int) -> float:
        """Return the phases that a job on the GPU has behind it."""
        return float(self.world.done_s[job] / self.world.jobs[job].usage.phase_s)

    def may(self) -> Flags:
        """Return which actions are allowed. Found once for as long as nothing changes."""
        now = self.now_s, tuple(self.waiting)
        if self._may[0] != now:
            there = [int(job) for job in self.world.running()]
            self._may = now, allowed(self._fit(there), somebody=bool(there))
        return self._may[1]

    def _fit(self, there: Sequence[int]) -> Flags:
        """Return with which actions no resource is exceeded, and each who starts gains enough where that is asked."""
        front = tuple(self.front)
        if self._added[0] != front:
            self._added = front, taken(self.observation.frame, [self._reaches[job].ahead() for job in front])
        nothing = np.zeros((self.observation.limits.longest, RESOURCES))
        running = sum((self._reaches[job].ahead(self.done(job)) for job in there), nothing)
        if self._gains is None:
            return fitting(running, self._added[1])
        wide = None
        if self.observation.limits.bounded:  # memory must be enough at any pace
            held = sum(self._reaches[job].peak_from(self.done(job)) for job in there)
            wide = remembered(self.observation.frame, held, [self._reaches[job].peak_from() for job in front])
        found = fitting(running, self._added[1]) if wide is None else wide | fitting(running, self._added[1])
        if not found[1:].any():
            return found
        names = [job.usage.signature for job in self.world.jobs]
        courses = [course(names[job], self._ahead(job), len(self.views[job]) - self.done(job)) for job in there]
        return self._gains.enough(courses, [course(names[job], *self._images[job]) for job in front], found)

    def _ahead(self, job: int) -> Floats:
        """Return the image of a job on the GPU from where it has come to."""
        return ahead(self.views[job], int(self.done(job) + 1e-9))

    def seen(self) -> tuple[Floats, Flags]:
        """Return the agent's state, and which actions are allowed."""
        running = [int(job) for job in self.world.running()]
        image = sum(map(self._ahead, running), np.zeros((STEPS, RESOURCES)))
        remaining = [len(self.views[job]) - self.done(job) for job in running]
        slots = [self._images[job] for job in self.front]
        return state(self.observation.frame, image, remaining, slots, len(self.waiting) - len(slots)), self.may()

    def act(self, action: int, gamma: float = 1.0) -> tuple[float, int]:
        """Start a subset of the slots, or wait. Returns the reward, discounted by step, and the steps that passed."""
        if action != WAIT:
            front = self.front
            self.start([front[slot] for slot in self.observation.frame.subsets[action]])
            return 0.0, 0
        before = self.may() if self.waiting else None
        reward, steps = 0.0, 0
        while True:
            cost = self.pay.total + self.pay.waiting * self._unfinished
            over = self.step()
            reward -= gamma**steps * (cost + self._harm())
            steps += 1
            if over or (before is not None and (self.may() & ~before).any()):
                return reward, steps

    def _harm(self) -> float:
        """The loss of the jobs that ran in the last step to one another."""
        if not self.pay.harm or len(self.world.ran) < 2:
            return 0.0
        lost = 1.0 - 1.0 / self.world.slowdown[self.world.ran]
        return self.pay.harm * float(lost @ self._weights[self.world.ran])

    def start(self, jobs: Sequence[int]) -> None:
        """Put waiting jobs on the GPU, each with the memory that `grants` names, or all that it asks for."""
        for job in jobs:
            self.waiting.remove(job)
            self.started_s[job] = self.now_s
            self.world.start(job, 0, self.grants.get(job, self.world.jobs[job].memory_mib))

    def step(self) -> bool:
        """Let a step pass; return whether a job ended. One that crashes for memory is the first to wait, and seen by its peak."""
        stepped = self.world.step(STEP_S)
        self.now_s += STEP_S
        self.used.append(self.world.used[0].copy())
        if len(self.world.ran) > 1:
            for job in self.world.ran:
                self.met[job].update(int(other) for other in self.world.ran if other != job)
        for job in stepped.ended:
            beyond_s = self.world.done_s[job] - self.world.jobs[job].usage.alone_s
            self.ended_s[job] = float(self.now_s - beyond_s * self.world.slowdown[job])
            self._unfinished -= float(self._weights[job])
        for job, _ in stepped.crashed:
            self.crashes += 1
            self.waiting.insert(0, job)
            parts = self.world.jobs[job].usage.parts
            self.views[job] = np.broadcast_to(parts.max(axis=0), parts.shape)
            self._images[job] = ahead(self.views[job]), float(len(parts))
            self._reaches[job] = Reach(self.views[job], self.observation.limits)
            self._added = (-1,), np.empty(0)
        return bool(stepped.ended or stepped.crashed)

    def slowdowns(self) -> dict[int, float]:
        """Return each job's slowdown, by its place: to the moment within the step in which it ended."""
        alone = {job: self.world.jobs[job].usage.alone_s for job in self.ended_s}
        return {job: (self.ended_s[job] - self.started_s[job]) / alone[job] for job in self.ended_s}

    def figures(self) -> dict[str, float]:
        """Return the report: seconds, shares of the GPU and its memory over them, jobs not slowed, the worst, crashes."""
        used = np.array(self.used)
        slowed = np.array(list(self.slowdowns().values()))
        return {
            "total_s": self.now_s,
            "gpu_util": float(used[:, GPU].mean()),
            "memory_util": float(used[:, MEMORY].mean()),
            "not_slowed": float((slowed <= NOT_SLOWED).sum()),
            "slowdown": float(slowed.mean()),
            "worst_slowdown": float(slowed.max()),
            "oom": float(self.crashes),
        }
