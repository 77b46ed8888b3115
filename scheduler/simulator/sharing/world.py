"""GPUs and the jobs on them, with their use: advanced by equal steps of time; slowdowns, ends, and crashes for memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.sharing.model import Profile
from scheduler.sharing.series import Floats, Ints
from scheduler.simulator.sharing.laws import InTurns, Law, summed

RESOURCES = ("gpu", "memory", "core", "pcie")
"""Each in parts of a GPU's: time in which a kernel runs, memory, SMs occupied, PCIe bandwidth (DqnGPU, table 1)."""


@dataclass(frozen=True, slots=True)
class Usage:
    """A signature's use by phase. `parts`: shape (phases, 4), the `RESOURCES` in 0 to 1; an undisturbed phase lasts `phase_s`.

    Raises ValueError for no phases, values outside 0 to 1, or phases of no length.
    """

    signature: str
    parts: Floats
    phase_s: float = 1.0

    def __post_init__(self) -> None:
        if (
            self.parts.ndim != 2
            or self.parts.shape[0] < 1
            or self.parts.shape[1] != len(RESOURCES)
            or self.phase_s <= 0
        ):
            raise ValueError(f"{self.signature}: a use of shape {self.parts.shape} with phases of {self.phase_s} s")
        if not ((self.parts >= 0).all() and (self.parts <= 1).all()):
            raise ValueError(f"{self.signature} uses less than nothing or more than a whole GPU")

    @property
    def alone_s(self) -> float:
        return len(self.parts) * self.phase_s

    def profile(self, memory_mib: int) -> Profile:
        """Return the record of an undisturbed run on a GPU with this memory; PCIe in parts of the link."""
        parts = np.repeat(self.parts, -(-5 // len(self.parts)), axis=0)
        return Profile({"memory_mib": parts[:, 1] * memory_mib, "gpu": parts[:, 0], "pcie_mb_s": parts[:, 3]})


@dataclass(frozen=True, slots=True)
class SharingJob:
    """A job of a simulated workload that opted in. Memory in MiB; only latency-critical jobs have queries."""

    key: int
    usage: Usage
    arrival_s: float
    memory_mib: int
    critical: bool = False
    queries_per_s: float = 0.0
    query_ms: float = 0.0


GPU, MEMORY = 0, 1


@dataclass(frozen=True, slots=True)
class Stepped:
    """A step's events: jobs that came to their end, and those that were ended for memory with the jobs beside them."""

    ended: tuple[int, ...]
    crashed: tuple[tuple[int, tuple[int, ...]], ...]


class World:
    """`n_gpus` GPUs of `memory_mib` each. Jobs go by their place in `jobs`.

    After a step: `used`, each GPU's use of the four resources in parts of it; `people`, its number of jobs; `ran`, the jobs.
    """

    def __init__(self, jobs: Sequence[SharingJob], n_gpus: int, memory_mib: int, law: Law | None = None) -> None:
        self.jobs, self.n_gpus, self.memory_mib = list(jobs), n_gpus, memory_mib
        self._law = law or InTurns()
        self._parts: Floats = np.concatenate([np.empty((0, len(RESOURCES))), *(job.usage.parts for job in self.jobs)])
        self._phases: Ints = np.array([len(job.usage.parts) for job in self.jobs], dtype=np.int64)
        self._first: Ints = np.cumsum(self._phases) - self._phases
        self._phase_s: Floats = np.array([job.usage.phase_s for job in self.jobs])
        self.place: Ints = np.full(len(self.jobs), -1, dtype=np.int64)
        self.grant_mib: Ints = np.zeros(len(self.jobs), dtype=np.int64)
        self.done_s: Floats = np.zeros(len(self.jobs))
        self._looked: tuple[Floats, Floats] | None = None
        self.slowdown: Floats = np.ones(len(self.jobs))
        self.used: Floats = np.zeros((n_gpus, len(RESOURCES)))
        self.people: Ints = np.zeros(n_gpus, dtype=np.int64)
        self.ran: Ints = np.empty(0, dtype=np.int64)

    def start(self, job: int, gpu: int, grant_mib: int, done_s: float = 0.0) -> None:
        """Put a job on a GPU, from its beginning or from where it stopped. `done_s` below 0: it stands that long first."""
        self._looked = None
        self.place[job], self.grant_mib[job], self.done_s[job] = gpu, grant_mib, done_s

    def stop(self, job: int) -> float:
        """Take a job off its GPU; return the seconds of its work that are done."""
        self._looked, self.place[job] = None, -1
        return float(self.done_s[job])

    def running(self) -> Ints:
        """Return the jobs that are on a GPU."""
        return np.flatnonzero(self.place >= 0)

    def demands(self, jobs: Ints) -> Floats:
        """Return each job's demand at its present phase. Shape (jobs, 4)."""
        at = np.clip((self.done_s[jobs] / self._phase_s[jobs]).astype(np.int64), 0, self._phases[jobs] - 1)
        found: Floats = self._parts[self._first[jobs] + at]
        return found

    def left_s(self) -> float:
        """Return how long nobody's end is away, as the jobs run now; infinite where nobody runs."""
        jobs = self.running()
        left = self._phases[jobs] * self._phase_s[jobs] - self.done_s[jobs]
        demands = self.demands(jobs)
        slow = self._slowdowns(jobs, demands)
        self._looked = demands, slow
        return float((left * slow).min(initial=np.inf))

    def step(self, step_s: float) -> Stepped:
        """Let a step pass. It must not be longer than a phase."""
        looked, self._looked = self._looked, None
        jobs = self.running()
        demands = self.demands(jobs) if looked is None else looked[0]
        crashed = self._crash(jobs, demands[:, MEMORY] * self.memory_mib)
        if crashed:
            jobs, looked = self.running(), None
            demands = self.demands(jobs)
        gpus, slow = self.place[jobs], self._slowdowns(jobs, demands) if looked is None else looked[1]
        self.slowdown[jobs] = slow
        self.used = np.minimum(summed(gpus, demands, self.n_gpus), 1.0)
        self.ran, self.people = jobs, np.bincount(gpus, minlength=self.n_gpus)
        self.done_s[jobs] += step_s / slow
        ended = jobs[self.done_s[jobs] >= self._phases[jobs] * self._phase_s[jobs] - 1e-9]
        self.place[ended] = -1
        return Stepped(tuple(int(job) for job in ended), crashed)

    def _slowdowns(self, jobs: Ints, demands: Floats) -> Floats:
        signatures = [self.jobs[job].usage.signature for job in jobs]
        return self._law.slowdowns(signatures, demands, self.place[jobs], self.n_gpus)

    def _crash(self, jobs: Ints, used_mib: Floats) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """End the job that is most beyond its grant on each GPU whose memory is not enough, until it is; then the largest."""
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
