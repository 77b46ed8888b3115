"""When a waiting job would be over, as it stands and with a change: by that a change gains or not (algorithms.md section 7).

A sooner start is no gain for a job that runs longer for it, nor for one that its time limit would end before it is done. Where
the job's length is not known, a change that makes it slower has no known gain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import TYPE_CHECKING

from scheduler.asking.starts.ranges import LONGEST_S, StartRange
from scheduler.asking.starts.scene import Experience
from scheduler.copies import replace
from scheduler.errors import InvalidJob
from scheduler.estimator.estimator import estimator_for
from scheduler.explaining.foresight import Foresight
from scheduler.fairness.lrf import FIXED, TOLD, age_of
from scheduler.intake.take_in import sound_knowledge
from scheduler.placement.ledger import Ledger
from scheduler.planning.inputs import gpus_by_type, sound_nodes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.model import ClusterState, Configuration, Decision, Job
    from scheduler.parameters import Parameters

GAIN_S, GAIN_SHARE = 60.0, 0.05
"""Ends that differ by less than this and this part of the wait count as the same."""
SAME_LENGTH = 0.005
"""A change that makes a job longer by less than this part leaves it as long."""
NEVER_S = math.inf
NOTHING = Experience()


class NoGain(StrEnum):
    """Why a change has no known gain."""

    SAME = "same"  # it would be over at about the same time
    LATER = "later"  # it would be over later
    LIMIT = "limit"  # its time limit would end it before it is done
    LENGTH = "length"  # it would run slower, and how long it runs is not known
    START = "start"  # it would run slower, or start later, and when it starts as it stands is not known


@dataclass(frozen=True, slots=True)
class Run:
    """How long the job's next attempt runs as it stands. `told`: by a rule of `TOLD`; else it is a guess.

    `begun_s`: the further time of an attempt that begins anew. `limit_s`: an attempt is ended by then.
    """

    run_s: float
    told: bool
    begun_s: float = 0.0
    limit_s: float = math.inf


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast: samples a second, and the cores a GPU and GPUs for that; of a CPU job the cores in all."""

    throughput: float | None
    cores: float
    gpus: float = 0.0

    def slower(self, other: Pace) -> float:
        """How many times as long it takes with the other. Half of the cores count as half as fast, which is the worst case."""
        by_cores = max(1.0, self.cores / other.cores) if other.cores else 1.0
        by_speed = self.throughput / other.throughput if self.throughput and other.throughput else 1.0
        return by_cores * by_speed


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a change gains. `ends_s`: when the job is over then, guessed if need be; `over_s`: None where it is a guess."""

    gains: bool
    ends_s: float
    over_s: float | None
    why: NoGain | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """The job as it stands: how long and how fast it runs, and when it starts (`NEVER_S`: not by itself). None: not known."""

    run: Run
    pace: Pace | None
    start_s: float | None
    now_s: float

    @property
    def over_s(self) -> float | None:
        if self.start_s is None or self.start_s == NEVER_S or not self.run.told:
            return None
        return self.start_s + self.run.run_s

    def judged(self, starts_s: float, pace: Pace | None, *, anew: bool = False) -> Verdict:
        """With a change that lets it start then and run at this pace; `anew`: from its beginning."""
        run, slower = self.run, self.pace.slower(pace) if self.pace and pace else 1.0
        longer_s = run.run_s * (slower - 1.0) + (run.begun_s * slower if anew else 0.0)
        ends_s, why = starts_s + run.run_s + longer_s, self._no_gain(starts_s, longer_s)
        return Verdict(why is None, ends_s, ends_s if run.told and why is not NoGain.LIMIT else None, why)

    def _no_gain(self, starts_s: float, longer_s: float) -> NoGain | None:
        run, is_slower = self.run, longer_s > SAME_LENGTH * self.run.run_s
        if run.told and run.run_s + longer_s > run.limit_s:
            return NoGain.LIMIT
        if self.start_s == NEVER_S:
            return None
        if self.start_s is None:
            return NoGain.START if is_slower or starts_s > self.now_s else None
        slight_s = max(GAIN_S, GAIN_SHARE * (self.start_s - self.now_s))
        sooner_s = self.start_s - starts_s
        if run.told:
            sooner_s -= longer_s
        if sooner_s > slight_s:
            return NoGain.LENGTH if is_slower and not run.told else None
        return NoGain.LATER if sooner_s < -slight_s else NoGain.SAME


def standing_of(
    state: ClusterState,
    job: Job,
    parameters: Parameters,
    *,
    now_s: float,
    found: StartRange | None,
    experience: Experience = NOTHING,
) -> Standing:
    """`found`: its range as it stands; None: there is none."""
    asked = asked_pace(state, job)
    pace = pace_of(found.on if found else (), job) or asked
    run = _at_pace(_run_of(state, job, parameters, experience), job, asked, pace, experience.run_times.exponent)
    start_s: float | None
    if Foresight(Ledger(sound_nodes(state)[0], (), ())).why_aside(job) is not None:
        start_s = NEVER_S
    elif found is None:
        start_s = None
    else:
        start_s = now_s + LONGEST_S if found.median_s is None else found.median_s
    return Standing(run, pace, start_s, now_s)


def _run_of(state: ClusterState, job: Job, parameters: Parameters, experience: Experience) -> Run:
    known = {}
    if job.total_samples is not None:
        known = estimator_for(sound_knowledge(state.knowledge), state.gpu_speeds, state.nodes).samples_per_s(job)
    whole = (
        job if job.expected_duration_s is None else replace(job, limit_s=None)
    )  # whether its limit ends it is asked here
    age = age_of(
        whole, state.history, tick_s=parameters.tick_s, samples_per_s=known, gpus_by_type=gpus_by_type(state.nodes)
    )
    done = min(0.99, max(0.0, job.done_fraction, experience.ran_s.get(job.id, 0.0) / age.age_s))
    told = age.source in TOLD and not (age.source == FIXED and job.id in experience.guessed)
    return Run(age.age_s * (1.0 - done), told, age.age_s * done, experience.limits_s.get(job.id, math.inf))


def _at_pace(run: Run, job: Job, asked: Pace | None, pace: Pace | None, exponent: float) -> Run:
    """The run at the pace that it gets. A job's age is that of its mean size on one node; `exponent`: of run times over sizes."""
    if not (asked and asked.throughput and pace and pace.throughput):
        return run
    by_size = (sum(job.requirement) / len(job.requirement) / asked.gpus) ** exponent
    slower = by_size * asked.throughput / pace.throughput
    return replace(run, run_s=run.run_s * slower, begun_s=run.begun_s * slower)


def asked_pace(state: ClusterState, job: Job) -> Pace | None:
    """The pace of the smallest size asked, on the fastest type asked, over as few nodes as hold it; None without any."""
    if job.is_cpu:
        return Pace(None, job.cores)
    estimator = estimator_for(sound_knowledge(state.knowledge), state.gpu_speeds, state.nodes)
    size = job.min_gpus
    largest = {
        (node.gpu_type, node.speed): node
        for node in sorted(state.nodes, key=lambda each: each.gpus_total)
        if node.gpus_total and job.may_use(node.gpu_type)
    }
    try:
        found = [estimator.per_gpu(job, each, size, -(-size // each.gpus_total)).per_gpu for each in largest.values()]
    except InvalidJob:
        return None  # the planning itself sets the job aside and says why
    return Pace(max(found) * size, job.cores, size) if found and size else None


def pace_placed(decision: Decision) -> Pace:
    placed = decision.placement
    assert placed is not None
    if not placed.gpus:
        return Pace(None, placed.cores)
    return Pace(float(decision.figures["throughput"]), placed.cores / placed.gpus, placed.gpus)


def pace_of(on: Sequence[Configuration], job: Job) -> Pace | None:
    """The middle pace of the job in the draws of a forecast; None where it started in none."""
    if not on:
        return None
    if job.is_cpu:
        return Pace(None, median(each.cores for each in on))
    cores = median(each.cores / max(1, each.gpus) for each in on)
    return Pace(median(each.throughput for each in on), cores, median(each.gpus for each in on))
