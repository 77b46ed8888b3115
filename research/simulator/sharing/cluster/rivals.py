"""Schedulers of trainings as Kube-Knots describes them (VI-E): they stop, move and pair jobs, and see no telemetry of a GPU.

*Gandiva-like*: first come, first served; where no GPU is idle, jobs take turns on the one with fewest. By trial and error it
packs two trainings on one GPU, and moves one away again where together they do less than one. *Tiresias-like*: least attained
service in two queues; who has had less takes the GPU of who has had more.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

import numpy as np

from research.simulator.sharing.cluster.events import Events
from research.simulator.sharing.exclusive import Exclusive

if TYPE_CHECKING:
    from collections.abc import Sequence

    from research.simulator.sharing.run import Setting
    from scheduler.simulator.sharing.laws import Law
    from scheduler.simulator.sharing.world import SharingJob

MOVE_S = 5.0
""""Latency up to few seconds": what a training stands still for when it is moved, or goes on."""
SAVE_S = 1.0
"""A job that takes another's place waits until that one is saved."""
TRY_S = 60.0
QUEUE_S = 3600.0
"""A job goes to the second queue after this much time on a GPU."""


class Scheduler(Protocol):
    def plan(self, run: Moving) -> None:
        """Start, stop and move jobs. Asked at each arrival and end, and each `plan_every_s`."""


class Moving(Events):
    """A run under a scheduler that stops and moves jobs."""

    def __init__(
        self, scheduler: Scheduler, jobs: Sequence[SharingJob], setting: Setting, law: Law | None = None
    ) -> None:
        super().__init__(Exclusive(), jobs, setting, law)
        self._scheduler = scheduler
        self._attained: dict[int, float] = {}

    def _plan(self) -> None:
        self._planned_s = self.now_s
        self._scheduler.plan(self)

    def _due(self) -> bool:
        return self.now_s - self._planned_s >= self.setting.plan_every_s

    @property
    def waiting(self) -> tuple[int, ...]:
        return tuple(self._waiting)

    def attained_s(self, job: int) -> float:
        """Return the seconds of work that a job has behind it."""
        running = self.world.place[job] >= 0
        return max(0.0, float(self.world.done_s[job]) if running else self._attained.get(job, 0.0))

    def people(self) -> list[list[int]]:
        """Return who is on each GPU."""
        found: list[list[int]] = [[] for _ in range(self.setting.n_gpus)]
        for job in self.world.running():
            found[self.world.place[job]].append(int(job))
        return found

    def fits(self, job: int, people: Sequence[int]) -> bool:
        held = sum(self.jobs[other].memory_mib for other in people)
        return held + self.jobs[job].memory_mib <= self.setting.memory_mib

    def begin(self, job: int, gpu: int, stands_s: float = 0.0) -> None:
        """Start a waiting job, or let it go on."""
        self._waiting.remove(job)
        done_s = self._attained.pop(job, 0.0)
        stands_s += MOVE_S if done_s > 0.0 else 0.0
        self.world.start(job, gpu, self.jobs[job].memory_mib, done_s - stands_s)

    def suspend(self, job: int) -> None:
        self._attained[job] = max(0.0, self.world.stop(job))
        self._waiting.append(job)
        self.tally.moves += 1

    def move(self, job: int, gpu: int) -> None:
        self.world.start(job, gpu, self.jobs[job].memory_mib, self.world.stop(job) - MOVE_S)
        self.tally.moves += 1


class Tiresias:
    """Two queues by attained service, first come first served within each; nobody shares a GPU."""

    def plan(self, run: Moving) -> None:
        people = run.people()
        idle = [gpu for gpu, here in enumerate(people) if not here]
        order = sorted(run.waiting, key=lambda job: self._key(run, job))
        running = sorted((int(job) for job in run.world.running()), key=lambda job: self._key(run, job))
        for job in order:
            if idle:
                run.begin(job, idle.pop(0))
            elif running and self._queue(run, running[-1]) > self._queue(run, job):
                worst = running.pop()
                gpu = int(run.world.place[worst])
                run.suspend(worst)
                run.begin(job, gpu, SAVE_S)

    def _queue(self, run: Moving, job: int) -> int:
        return int(run.attained_s(job) >= QUEUE_S)

    def _key(self, run: Moving, job: int) -> tuple[int, float]:
        return self._queue(run, job), run.jobs[job].arrival_s


class Gandiva:
    """First come first served, turns where nothing is idle, and packing by trial and error."""

    def __init__(self) -> None:
        self._tried_s = 0.0
        self._bad: set[tuple[str, str]] = set()

    def plan(self, run: Moving) -> None:
        people = run.people()
        for job in run.waiting:
            fitting = [gpu for gpu, here in enumerate(people) if run.fits(job, here)]
            if not fitting:
                break  # those behind it wait too
            gpu = min(fitting, key=lambda each: len(people[each]))
            people[gpu].append(job)
            run.begin(job, gpu)
        if run.now_s - self._tried_s >= TRY_S:
            self._tried_s = run.now_s
            self._look(run, people)
            self._pack(run, people)

    def _look(self, run: Moving, people: list[list[int]]) -> None:
        """Move one of a pair away that does less than one alone."""
        for here in people:
            speeds = [1.0 / float(run.world.slowdown[job]) for job in here]
            idle = next((gpu for gpu, there in enumerate(people) if not there), None)
            if len(here) > 1 and sum(speeds) < 1.0 and idle is not None:
                self._bad.add(self._names(run, here[0], here[-1]))
                people[idle].append(here[-1])
                run.move(here.pop(), idle)

    def _pack(self, run: Moving, people: list[list[int]]) -> None:
        """Put one training beside another, where that was not seen to be bad: one trial a minute."""
        single = [here[0] for here in people if len(here) == 1 and not run.jobs[here[0]].critical]
        use = run.world.demands(np.array(single, dtype=np.int64))[:, 0] if single else np.empty(0)
        by_use = [single[each] for each in np.argsort(use, kind="stable")]
        for one, other in pairwise(by_use):
            if self._names(run, one, other) not in self._bad and run.fits(one, [other]):
                run.move(one, int(run.world.place[other]))
                return

    def _names(self, run: Moving, one: int, other: int) -> tuple[str, str]:
        names = sorted((run.jobs[one].usage.signature, run.jobs[other].usage.signature))
        return names[0], names[1]
