"""GPUs and the jobs on them, advanced by equal steps of time: who is slowed, who ends, who crashes for memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scheduler.simulator.sharing.laws import InTurns, summed
from scheduler.simulator.sharing.usage import RESOURCES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.sharing.series import Floats, Ints
    from scheduler.simulator.sharing.laws import Law
    from scheduler.simulator.sharing.usage import SharingJob

GPU, MEMORY = 0, 1


@dataclass(frozen=True, slots=True)
class Stepped:
    """What happened in a step: jobs that came to their end, and those that were ended for memory with who was there."""

    ended: tuple[int, ...]
    crashed: tuple[tuple[int, tuple[int, ...]], ...]


class World:
    """`n_gpus` GPUs of `memory_mib` each. Jobs go by their place in `jobs`.

    Of the last step: `used`, each GPU's use of the four resources in parts of it; `people`, how many were there; `ran`, who ran.
    """

    def __init__(self, jobs: Sequence[SharingJob], n_gpus: int, memory_mib: int, law: Law | None = None) -> None:
        self.jobs, self.n_gpus, self.memory_mib = list(jobs), n_gpus, memory_mib
        self._law = law or InTurns()
        longest = max((len(job.usage.parts) for job in jobs), default=1)
        self._parts = np.zeros((len(self.jobs), longest, len(RESOURCES)))
        for row, job in enumerate(self.jobs):
            self._parts[row, : len(job.usage.parts)] = job.usage.parts
        self._phases: Ints = np.array([len(job.usage.parts) for job in self.jobs], dtype=np.int64)
        self._phase_s: Floats = np.array([job.usage.phase_s for job in self.jobs])
        self.place: Ints = np.full(len(self.jobs), -1, dtype=np.int64)
        self.grant_mib: Ints = np.zeros(len(self.jobs), dtype=np.int64)
        self.done_s: Floats = np.zeros(len(self.jobs))
        self.slowdown: Floats = np.ones(len(self.jobs))
        self.used: Floats = np.zeros((n_gpus, len(RESOURCES)))
        self.people: Ints = np.zeros(n_gpus, dtype=np.int64)
        self.ran: Ints = np.empty(0, dtype=np.int64)

    def start(self, job: int, gpu: int, grant_mib: int) -> None:
        """Put a job on a GPU, from its beginning."""
        self.place[job], self.grant_mib[job], self.done_s[job] = gpu, grant_mib, 0.0

    def running(self) -> Ints:
        """Return the jobs that are on a GPU."""
        return np.flatnonzero(self.place >= 0)

    def demands(self, jobs: Ints) -> Floats:
        """Return what each job asks for now, at the phase that it has come to. Shape (jobs, 4)."""
        at = np.minimum((self.done_s[jobs] / self._phase_s[jobs]).astype(np.int64), self._phases[jobs] - 1)
        found: Floats = self._parts[jobs, at]
        return found

    def step(self, step_s: float) -> Stepped:
        """Let so much time pass. A step must not be longer than a phase."""
        jobs = self.running()
        demands, gpus = self.demands(jobs), self.place[jobs]
        crashed = self._crash(jobs, demands[:, MEMORY] * self.memory_mib)
        if crashed:
            jobs = self.running()
            demands, gpus = self.demands(jobs), self.place[jobs]
        slow = self._law.slowdowns([self.jobs[job].usage.signature for job in jobs], demands, gpus, self.n_gpus)
        self.slowdown[jobs] = slow
        self.used = np.minimum(summed(gpus, demands, self.n_gpus), 1.0)
        self.ran, self.people = jobs, np.bincount(gpus, minlength=self.n_gpus)
        self.done_s[jobs] += step_s / slow
        ended = jobs[self.done_s[jobs] >= self._phases[jobs] * self._phase_s[jobs] - 1e-9]
        self.place[ended] = -1
        return Stepped(tuple(int(job) for job in ended), crashed)

    def _crash(self, jobs: Ints, used_mib: Floats) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """End whoever is most beyond its grant on each GPU whose memory is not enough, until it is; then the largest."""
        found = []
        totals = np.bincount(self.place[jobs], used_mib, self.n_gpus)
        for gpu in np.flatnonzero(totals > self.memory_mib + 1e-6):
            here = np.flatnonzero(self.place[jobs] == gpu)
            while len(here) and used_mib[here].sum() > self.memory_mib + 1e-6:
                beyond = used_mib[here] - self.grant_mib[jobs[here]]
                worst = here[np.lexsort((-used_mib[here], -beyond))[0]]
                here = here[here != worst]
                self.place[jobs[worst]] = -1
                found.append((int(jobs[worst]), tuple(int(job) for job in jobs[here])))
        return tuple(found)
