"""The common input of a forecast's draws: sound nodes, the jobs that are followed with their ages fixed, and the estimator.

*Steps of a draw's virtual clock*: near times are exact to about a tick, far ones less.
No job is placed within a step, and the GPUs of a job that ends in it stand idle till the step is over. So a step ends when a
tenth of the held GPUs has come free. In longer steps hardly a job an hour would start, the queue would grow without end, and jobs
far behind in it would be foretold hours or days ahead.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from heapq import merge
from operator import itemgetter
from statistics import median
from typing import TYPE_CHECKING

from scheduler.asking.starts.runtimes import RunTimes
from scheduler.copies import replace
from scheduler.errors import InvalidJob
from scheduler.estimator.estimator import Estimator, estimator_for
from scheduler.explaining.foresight import Foresight
from scheduler.fairness.lrf import Age, age_of
from scheduler.fairness.priorities import Moment, order
from scheduler.intake.validation import check_job
from scheduler.placement.ledger import Ledger
from scheduler.planning.inputs import gpus_by_type, known_types, sound_nodes
from scheduler.policies.registry import POLICIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from scheduler.asking.starts.ranges import Foretold
    from scheduler.model import Chosen, ClusterState, Job, Node, Running
    from scheduler.parameters import Parameters


STEP_OF_AGE = 0.02
"""A step of virtual time is at least this part of the jobs' median age, and a tick."""
SOLVED_GPUS, SOLVED_JOBS = 256, 150
"""The most GPUs, and jobs that wait or may be resized, for which a draw plans as the service does, re-plans included. Beyond
that it places greedily and resizes no job, for a re-plan of a large cluster costs seconds."""
MOST_COMING = 300
"""The most new jobs in a draw. On a busy cluster that is minutes, on a quiet one days."""


@dataclass(frozen=True, slots=True)
class Experience:
    """The past beside the snapshot: run times, the jobs that were submitted from `since_s` to now, and past forecasts, oldest
    first. `ran_s`: by job, the run time of earlier attempts that it goes on from, where it does not report its progress.
    `limits_s`: by job, the longest time of an attempt. `guessed`: jobs that have run before, whose length was not given.
    """

    run_times: RunTimes = field(default_factory=RunTimes)
    arrived: Sequence[Job] = ()
    since_s: float = math.inf
    foretold: Sequence[Foretold] = ()
    ran_s: Mapping[int, float] = field(default_factory=dict)
    limits_s: Mapping[int, float] = field(default_factory=dict)
    guessed: frozenset[int] = frozenset()


class Scene:
    """Read from the snapshot once; draws copy from it."""

    def __init__(
        self, state: ClusterState, now_s: float, parameters: Parameters, jobs_most: int, experience: Experience
    ) -> None:
        self.now_s, self.run_times, self._ran_s = now_s, experience.run_times, experience.ran_s
        self._limits_s = experience.limits_s
        self.policy = POLICIES[parameters.policy]
        self.nodes, _ = sound_nodes(state)
        self.estimator: Estimator = estimator_for(state.knowledge, state.gpu_speeds, self.nodes)
        self._gpus_by_type = gpus_by_type(self.nodes)
        self._tick_s, self._history = parameters.tick_s, state.history
        may_start = Foresight(Ledger(self.nodes, (), ()))
        # Nothing is foretold of jobs that share GPUs: they start by a step of their own, on none of the GPUs drawn here.
        self.comes_s: dict[int, float] = {}  # followed jobs that are not to start before a time
        whole = (self._let_come(job) for job in sound_jobs(state, self.nodes) if job.part is None)
        jobs = self._fix_ages(job for job in whole if may_start.why_aside(job) is None)
        first = order(jobs, self.policy.priority(parameters), Moment(now_s), age)[:jobs_most]
        self.jobs = [each.job for each in first]
        self.step_s = parameters.tick_s
        if first:
            self.step_s = max(parameters.tick_s, STEP_OF_AGE * median(each.age_s for each in first))
        resizable = sum(live.elastic and live.description is not None for live in state.running)
        small = sum(self._gpus_by_type.values()) <= SOLVED_GPUS and len(self.jobs) + resizable <= SOLVED_JOBS
        self.resizes = small and self.policy.replans and parameters.placement == "ilp"
        self.parameters = parameters if self.resizes else replace(parameters, placement="greedy")
        self.state = replace(state, nodes=self.nodes, jobs=(), running=[self._fix(live) for live in state.running])
        self.arriving = self._fix_ages(
            replace(job, id=-number - 2**40, wait_s=0.0, promise=None, eligible=True, ineligible_reason=None)
            for number, job in enumerate(job for job in experience.arrived if job.part is None)
            if may_start.why_aside(replace(job, eligible=True)) is None
        )
        self._period_s = now_s - experience.since_s
        self._since_s = experience.since_s

    def _let_come(self, job: Job) -> Job:
        """Return a job that waits only for a time as one that may start, and note the time."""
        if (until_s := job.ineligible_figures.get("until_s")) is None:
            return job
        self.comes_s[job.id] = until_s
        return replace(job, eligible=True, ineligible_reason=None, ineligible_figures={})

    def _fix_ages(self, jobs: Iterable[Job]) -> list[Job]:
        """The jobs with their ages fixed; those without one, being invalid, are left out."""
        found = []
        for job in jobs:
            try:
                known = {} if job.total_samples is None else self.estimator.samples_per_s(job)
                found_age = age_of(
                    job, self._history, tick_s=self._tick_s, samples_per_s=known, gpus_by_type=self._gpus_by_type
                )
            except InvalidJob:
                continue
            found.append(replace(job, age_s=found_age.age_s))
        return found

    def _fix(self, live: Running) -> Running:
        """A job that cannot be resized in a draw is not stopped in it."""
        resizable = self.resizes and live.elastic and live.description is not None and not live.stopping
        aged = self._fix_ages([live.description]) if resizable and live.description is not None else []
        description = aged[0] if aged else None
        return replace(live, movable=description is not None, elastic=description is not None, description=description)

    def before_s(self, job: int) -> float:
        """The part of the job's run time in earlier attempts. The run time is drawn as a whole, and the rest of it is run."""
        return self._ran_s.get(job, 0.0)

    def limit_s(self, job: int) -> float:
        """After how long an attempt of the job is ended in any case."""
        return self._limits_s.get(job, math.inf)

    def expected_s(self, job: Job, chosen: Chosen) -> float:
        """How long the job is expected to run on its configuration, `before_s` included."""
        made = chosen.configuration
        rest = 1.0 - min(0.99, max(0.0, job.done_fraction))
        expected_s = age(job).age_s * rest
        if job.is_cpu:
            return expected_s
        if job.total_samples is not None and made.source != "assumed":
            return job.total_samples * rest / made.throughput
        by_size = (sum(job.requirement) / len(job.requirement) / made.gpus) ** self.run_times.exponent
        speed = made.throughput / float(made.gpus**0.9) if made.source == "assumed" else 1.0
        return expected_s * float(by_size) / max(speed, 1e-9)

    def to_come(self, phase: float | None) -> Iterator[tuple[float, Job]]:
        """(time, job) of the followed jobs that wait for a time, with the recent past again where it has a `phase`."""
        known = sorted((self.comes_s[job.id], job.id, job) for job in self.jobs if job.id in self.comes_s)
        told = ((at_s, replace(job)) for at_s, _, job in known)
        return told if phase is None else merge(told, self.arrivals(phase), key=itemgetter(0))

    def arrivals(self, phase: float) -> Iterator[tuple[float, Job]]:
        """(time, job) of `MOST_COMING` new jobs: the recent past again and again, begun at this part of it."""
        if not self.arriving or not 0 < self._period_s < math.inf:
            return
        period_s, count = self._period_s, len(self.arriving)
        offsets = sorted(
            ((job.submitted_s - self._since_s - phase * period_s) % period_s, place)
            for place, job in enumerate(self.arriving)
        )
        for coming in range(MOST_COMING):
            lap, position = divmod(coming, count)
            offset_s, place = offsets[position]
            at_s, job = self.now_s + lap * period_s + offset_s, self.arriving[place]
            yield at_s, replace(job, id=job.id - lap * count, submitted_s=at_s)


def age(job: Job) -> Age:
    """Fixed for the whole forecast."""
    assert job.age_s is not None
    return Age(job.age_s, "")


def sound_jobs(state: ClusterState, nodes: Sequence[Node]) -> list[Job]:
    known = known_types(state, nodes)
    sound: dict[int, Job] = {}
    for job in state.jobs:
        try:
            check_job(job, known, listed=sound)
        except InvalidJob:
            continue  # the planning names it
        sound[job.id] = job
    return list(sound.values())


GROWTH = 0.15
"""The longest step: this part of the time so far."""
RELEASED = 0.1
"""The part of the held GPUs that may come free in a step."""
FINE, DOUBLES, STEPS_MOST = 120, 20, 220
"""Steps of a draw with that part, which is about ten times round the cluster; in how many steps after them the part doubles, and
all steps: a job that has not started by then starts late in any case.
"""


def longest_s(step: int, now_s: float, passed_s: float, running: Iterable[tuple[float, int]]) -> float:
    """The longest step at this number of the draw, `passed_s` after its beginning. `running`: (end, GPUs) of running jobs."""
    grown_s = GROWTH * passed_s
    ends = sorted(running)
    left = RELEASED * 2.0 ** (max(0, step - FINE) / DOUBLES) * sum(gpus for _, gpus in ends)
    for end_s, gpus in ends:
        left -= gpus
        if left <= 0:
            return min(grown_s, max(0.0, end_s - now_s))
    return grown_s
