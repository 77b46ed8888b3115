"""A workload of sharing jobs under one policy: arrivals, the sharing step of `scheduler.sharing`, crashes, the report."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from research.simulator.sharing.exclusive import Exclusive
from research.simulator.sharing.tally import Tally
from scheduler.sharing.measured import NOTHING
from scheduler.sharing.model import Asker, Resident, SharedGpu
from scheduler.sharing.sharing import POLICIES, share
from scheduler.simulator.sharing.world import MEMORY, World

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scheduler.sharing.measured import Measured
    from scheduler.sharing.model import Profile
    from scheduler.sharing.policy import Policy
    from scheduler.simulator.sharing.laws import Law
    from scheduler.simulator.sharing.world import SharingJob

TELL_EVERY_S = 60


@dataclass(frozen=True, slots=True)
class Setting:
    """`step_s` is the heartbeat too: each GPU's memory is sampled once a step, and the last `window` samples are kept.

    `plan_every_s`: the sharing step is made at each arrival and end, and so often while somebody waits.
    """

    n_gpus: int
    memory_mib: int
    step_s: float = 1.0
    window: int = 5
    plan_every_s: float = 5.0
    until_s: float = 7 * 86_400.0


def policy_named(name: str) -> Policy:
    """Return the policy. Raises KeyError for a name that is none."""
    return Exclusive() if name == Exclusive.name else POLICIES[name]()


class Run:
    """One policy on one workload. A signature is known from the end of its first run on, or from the start if `known`."""

    def __init__(
        self,
        policy: Policy,
        jobs: Sequence[SharingJob],
        setting: Setting,
        law: Law | None = None,
        *,
        known: bool = False,
    ) -> None:
        self.policy, self.jobs, self.setting = policy, list(jobs), setting
        self.world = World(jobs, setting.n_gpus, setting.memory_mib, law)
        self.tally = self._tally()
        self.now_s = 0.0
        self._profiles: dict[str, Profile] = {}
        self._marked: dict[int, set[str]] = {}
        self._crashed: set[int] = set()
        self._waiting: list[int] = []
        self._samples: list[deque[float]] = [deque(maxlen=setting.window) for _ in range(setting.n_gpus)]
        self._coming = deque(sorted(range(len(self.jobs)), key=lambda n: (self.jobs[n].arrival_s, self.jobs[n].key)))
        self._planned_s = -np.inf
        if known:
            for job in self.jobs:
                self._remember(job)

    def go(self, progress: Callable[[float], None] | None = None) -> Tally:
        """Run to the last job's end, or to the time limit of the setting. `progress`: gets the part of jobs that has ended."""
        while (self._coming or self._waiting or len(self.world.running())) and self.now_s < self.setting.until_s:
            self._one_step()
            if progress is not None and int(self.now_s) % TELL_EVERY_S == 0:
                progress(len(self.tally.ended_s) / len(self.jobs))
        return self.tally

    def _one_step(self) -> None:
        came = self._arrivals()
        if (self._waiting and came) or self._due():
            self._plan()
        span_s = self._span_s()
        stepped = self.world.step(span_s)
        self.now_s += span_s
        self.tally.step(self.world, np.array(self._waiting, dtype=np.int64), span_s)
        self._sample()
        for job in stepped.ended:
            self.tally.ended_s[job] = self.now_s
            self._remember(self.jobs[job])
        for job, beside in stepped.crashed:
            self._crash(job, beside)
        if stepped.ended or stepped.crashed:
            self._planned_s = -np.inf

    def _due(self) -> bool:
        return bool(self._waiting) and self.now_s - self._planned_s >= self.setting.plan_every_s

    def _tally(self) -> Tally:
        return Tally(self.jobs)

    def _span_s(self) -> float:
        """Return how long the next step is."""
        return self.setting.step_s

    def _sample(self) -> None:
        for gpu, used in enumerate(self.world.used[:, MEMORY]):
            self._samples[gpu].append(float(used) * self.setting.memory_mib)

    def _arrivals(self) -> bool:
        before = len(self._waiting)
        while self._coming and self.jobs[self._coming[0]].arrival_s <= self.now_s:
            self._waiting.append(self._coming.popleft())
        return len(self._waiting) > before

    def _remember(self, job: SharingJob) -> None:
        if job.usage.signature not in self._profiles:
            self._profiles[job.usage.signature] = job.usage.profile(self.setting.memory_mib)

    def _crash(self, job: int, beside: Sequence[int]) -> None:
        """Back to the queue with all it asks for, and apart from those who were there."""
        self.tally.crashes += 1
        self._crashed.add(job)
        self._marked.setdefault(job, set()).update(self.jobs[other].usage.signature for other in beside)
        self._waiting.append(job)

    def _plan(self) -> None:
        self._planned_s = self.now_s
        askers = [self._asker(job) for job in self._waiting]
        shared = share(self.policy, askers, self._gpus(), measured=self._measured())
        for harvest in shared.harvests:
            self.world.grant_mib[harvest.job] = harvest.grant_mib
        for each in shared.joined:
            self.world.start(each.job, each.gpu, each.grant_mib)
        gone = {each.job for each in shared.joined}
        self._waiting = [job for job in self._waiting if job not in gone]

    def _measured(self) -> Measured:
        """Return what the run has measured of pairs."""
        return NOTHING

    def _asker(self, number: int) -> Asker:
        job = self.jobs[number]
        signature = job.usage.signature
        return Asker(
            number,
            job.memory_mib,
            signature,
            compute=0,
            critical=job.critical,
            whole_request=number in self._crashed,
            apart_from=frozenset(self._marked.get(number, ())),
            profile=self._profiles.get(signature),
        )

    def _gpus(self) -> list[SharedGpu]:
        running = self.world.running()
        used = self.world.demands(running)[:, MEMORY] * self.setting.memory_mib
        residents: list[list[Resident]] = [[] for _ in range(self.setting.n_gpus)]
        for job, used_mib in zip(running, used, strict=True):
            grant = int(self.world.grant_mib[job])
            residents[self.world.place[job]].append(Resident(self._asker(int(job)), grant, float(used_mib)))
        return [
            SharedGpu(gpu, self.setting.memory_mib, tuple(here), np.array(self._samples[gpu]))
            for gpu, here in enumerate(residents)
        ]
