"""Predicted starts (algorithms.md section 7): the queue simulated forward with the policy's own code, several times over.

Each *draw* starts from the snapshot and a virtual clock. Whenever something has ended, the policy orders the queue and
places (greedily, for speed) on what is then idle; what it places runs for its expected time times a drawn factor. The
range of a job is the earliest, median and latest of its starts over the draws; None = beyond the horizon.

How long a job runs: its age (section 3), for the size and speed it got; runs that go on have the rest of theirs, given
that they have lasted so long. The factor is log-normal, median 1, sigma `SIGMA`: half of its variance is common to a
draw (users of one cluster err together; the draws stand at the middles of equal parts of the distribution), half the
job's own. Ages already carry the owner's actual/declared ratio, so the factor is about them.

Left out, so that the answer comes in time and stays plain: new submissions, stopping running jobs for others (an owner
of an array may start sooner than said, a borrower later), re-plans, failures. Attempts being stopped are gone after one
restart cost. Times are exact to a step (`STEP_GROWTH`, `STEP_OF_AGE`): near ones to about a tick, far ones less. Only the first
jobs of the queue are followed, and time ends at a horizon (`Reach`); when `limit_s` is over, fewer draws count.
A draw over 2 000 waiting jobs on 512 GPUs takes about 5 s of processor time.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from statistics import NormalDist, median
from typing import TYPE_CHECKING

import numpy as np

from scheduler.errors import InvalidJob, InvalidNode
from scheduler.estimator.layers import estimator_for
from scheduler.explain import Foresight
from scheduler.fairness.lrf import Age, age_of
from scheduler.fairness.priorities import Moment, order
from scheduler.fairness.reservation import expected_end_s
from scheduler.model import Running
from scheduler.placement.ledger import Ledger
from scheduler.policy import POLICIES
from scheduler.replan.promises import settle
from scheduler.validation import check_job, check_node
from scheduler.work import Work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.random import Generator

    from scheduler.estimator.layers import Estimator
    from scheduler.model import Clock, ClusterState, Job, Node
    from scheduler.policy import Parameters
    from scheduler.work import Chosen, Ranked

SIGMA = 0.5
"""Of the log-normal factor on run times: two thirds of the jobs run for 0.6 to 1.65 times what is expected."""
STEP_GROWTH, STEP_OF_AGE = 0.15, 0.02
"""A step of virtual time: this part of the time so far, or of the jobs' median age; never less than a tick."""
NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Reach:
    """How far a forecast goes: seconds of virtual time, draws, and how many jobs of the queue are followed."""

    horizon_s: float = 24 * 3600.0
    draws: int = 5
    jobs: int = 2_000


FAR = Reach()


@dataclass(frozen=True, slots=True)
class StartRange:
    """When a job is expected to start, seconds on the snapshot's clock; None = beyond the horizon. `draws`: of how many."""

    earliest_s: float | None
    median_s: float | None
    latest_s: float | None
    draws: int


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How past predictions fared, for jobs that have started. `coverage`: the part whose start lay within the range."""

    jobs: int
    covered: int
    coverage: float | None
    median_error_s: float | None  # of |actual - predicted median|, where a median was predicted
    median_error_of_wait: float | None  # the same over the time from prediction to actual start


def forecast(
    state: ClusterState,
    now_s: float,
    parameters: Parameters,
    rng: Generator,
    clock: Clock,
    *,
    limit_s: float = 20.0,
    reach: Reach = FAR,
) -> Mapping[int, StartRange]:
    """The ranges of the waiting jobs that may start by themselves; held, dependent and impossible ones are not in it.

    The same arguments give the same answer unless `limit_s` (on `clock`) cuts draws off. Bad nodes and jobs are left
    out. ValueError for a reach without horizon, draws or jobs.
    """
    if min(reach.draws, reach.horizon_s, reach.jobs) < 1:
        raise ValueError(f"{reach}: each must be at least 1")
    deadline_s, draws = clock() + limit_s, reach.draws
    scene = _Scene(state, now_s, parameters, reach.jobs)
    factors = rng.standard_normal((draws, len(scene.jobs) + len(state.running)))
    seed = int(rng.integers(2**31 - 1))
    starts: list[dict[int, float]] = []
    for draw in _outwards(draws):
        common = NORMAL.inv_cdf((draw + 0.5) / draws)
        errors = math.sqrt(0.5) * (common + factors[draw])
        run = _Run(scene, errors, np.random.default_rng(seed), lambda: clock() >= deadline_s)
        found = run.starts(reach.horizon_s)
        if not run.cut or not starts:  # a draw that came to its end says more
            starts.append(found)
        if run.cut:
            del starts[len(starts) - (len(starts) + 1) % 2 :]  # the middle one and pairs about it
            break
    return {job.id: _range([found.get(job.id, math.inf) for found in starts]) for job in scene.jobs}


def _outwards(draws: int) -> list[int]:
    """The draws in the order in which they are made: the middle one, then the outermost pair, and inwards."""
    pairs = [each for k in range(draws // 2) for each in (k, draws - 1 - k)]
    return [draws // 2, *(each for each in pairs if each != draws // 2)]


def _range(starts: Sequence[float]) -> StartRange:
    ordered = sorted(starts)
    picked = (ordered[0], ordered[(len(ordered) - 1) // 2], ordered[-1])
    earliest, middle, latest = (None if math.isinf(each) else each for each in picked)
    return StartRange(earliest, middle, latest, len(ordered))


def accuracy(rows: Iterable[tuple[StartRange, float, float]]) -> Accuracy:
    """The record of (prediction, when it was made, when the job started). A latest of None covers any late start."""
    every = list(rows)
    covered = sum(_covers(predicted, actual_s) for predicted, _, actual_s in every)
    errors = [
        (abs(actual_s - predicted.median_s), max(1.0, actual_s - made_s))
        for predicted, made_s, actual_s in every
        if predicted.median_s is not None
    ]
    return Accuracy(
        jobs=len(every),
        covered=covered,
        coverage=covered / len(every) if every else None,
        median_error_s=median(error for error, _ in errors) if errors else None,
        median_error_of_wait=median(error / wait_s for error, wait_s in errors) if errors else None,
    )


def _covers(predicted: StartRange, actual_s: float) -> bool:
    if predicted.earliest_s is None:
        return False  # "beyond the horizon" is no range that could be met
    return predicted.earliest_s <= actual_s <= (math.inf if predicted.latest_s is None else predicted.latest_s)


class _Scene:
    """What all draws share: sound nodes, the jobs that are followed with their ages fixed, the estimator."""

    def __init__(self, state: ClusterState, now_s: float, parameters: Parameters, jobs_most: int) -> None:
        self.now_s = now_s
        self.parameters = replace(parameters, placement="greedy")
        self.policy = POLICIES[parameters.policy]
        self.nodes = _sound_nodes(state)
        self.state = replace(state, nodes=self.nodes, jobs=())
        self.estimator: Estimator = estimator_for(state.knowledge, state.gpu_speeds, self.nodes)
        self.ages: dict[int, Age] = {}
        self._gpus_by_type = Counter[str]()
        for node in self.nodes:
            self._gpus_by_type[node.gpu_type or ""] += node.gpus_total
        may_start = Foresight(Ledger(self.nodes, (), ()))
        sound = _sound_jobs(state, self.nodes)
        jobs = [job for job in sound if may_start.why_aside(job) is None and self._aged(job, state)]
        first = order(jobs, self.policy.priority(self.parameters), Moment(now_s), self.age)[:jobs_most]
        self.jobs = [replace(each.job, age_s=each.age_s) for each in first]
        self.step_s = parameters.tick_s
        if first:
            self.step_s = max(parameters.tick_s, STEP_OF_AGE * median(each.age_s for each in first))

    def _aged(self, job: Job, state: ClusterState) -> bool:
        try:
            known = {} if job.total_samples is None else self.estimator.samples_per_s(job)
            self.ages[job.id] = age_of(
                job,
                state.history,
                tick_s=self.parameters.tick_s,
                samples_per_s=known,
                gpus_by_type=self._gpus_by_type,
            )
        except InvalidJob:
            return False
        return True

    def age(self, job: Job) -> Age:
        return self.ages[job.id]

    def expected_s(self, job: Job, chosen: Chosen) -> float:
        """How long the job is expected to run on what it got."""
        made = chosen.configuration
        rest = 1.0 - min(0.99, max(0.0, job.done_fraction))
        if job.is_cpu:
            return self.ages[job.id].age_s * rest
        if job.total_samples is not None and made.source != "assumed":
            return job.total_samples * rest / made.throughput
        mean = sum(job.requirement) / len(job.requirement)
        speed = made.throughput / float(made.gpus**0.9) if made.source == "assumed" else 1.0
        return self.ages[job.id].age_s * rest * float((mean / made.gpus) ** 0.9) / max(speed, 1e-9)


class _Run:
    """One draw."""

    def __init__(self, scene: _Scene, errors: np.ndarray, rng: Generator, late: Callable[[], bool]) -> None:
        self._scene, self._rng, self._late = scene, rng, late
        self.cut = False
        self._factor = {job.id: math.exp(SIGMA * errors[k]) for k, job in enumerate(scene.jobs)}
        self._ledger = Ledger(scene.nodes, scene.state.tenants, scene.state.running)
        self._exclusive = [room for room in self._ledger.rooms.values() if room.node.exclusive_tenant]
        self._running: dict[int, Running] = {}
        self._ends: list[tuple[float, int]] = []
        for live, error in zip(scene.state.running, errors[len(scene.jobs) :], strict=True):
            # Nobody is stopped in a forecast.
            self._running[live.job] = replace(live, movable=False, stopping=False)
            heappush(self._ends, (self._end_of(live, float(error)), live.job))
        self._waiting = {job.id: replace(job) for job in scene.jobs}
        self._waited_s = {job.id: job.wait_s for job in scene.jobs}

    def _end_of(self, live: Running, error: float) -> float:
        """When a run that has lasted so long ends: drawn from the part of its distribution that is left."""
        now_s = self._scene.now_s
        if live.stopping:
            return now_s + self._scene.parameters.restart_cost_s
        expected_s = max(1.0, expected_end_s(live, now_s) - live.started_s)
        lasted_s = max(1e-9, now_s - live.started_s)
        done = NORMAL.cdf(math.log(lasted_s / expected_s) / SIGMA)
        left = done + NORMAL.cdf(error) * (1.0 - done)
        if left >= 1.0 - 1e-12:
            return now_s + 1.0
        drawn_s = expected_s * math.exp(SIGMA * NORMAL.inv_cdf(max(left, 1e-12)))
        return max(now_s + 1.0, live.started_s + drawn_s)

    def starts(self, horizon_s: float) -> dict[int, float]:
        """Job -> when it starts, until everyone has, the horizon is reached, or time is up."""
        now_s = self._scene.now_s
        found: dict[int, float] = {}
        while now_s <= self._scene.now_s + horizon_s:
            for job in self._placed(now_s):
                found[job] = now_s
            if not self._waiting or not self._ends:
                break
            if self._late():
                self.cut = True
                break
            elapsed_s = now_s - self._scene.now_s
            step_s = max(self._scene.step_s, STEP_GROWTH * elapsed_s)
            now_s = max(self._ends[0][0], now_s + step_s)
            self._end_until(now_s)
        return found

    def _end_until(self, now_s: float) -> None:
        while self._ends and self._ends[0][0] <= now_s:
            _, job = heappop(self._ends)
            live = self._running.pop(job)
            self._ledger.give_back(live.tenant, live.pieces)
        for room in self._exclusive:
            here = (live for live in self._running.values() if any(p.node == room.node.id for p in live.pieces))
            room.tenants = frozenset(live.tenant for live in here)
            self._ledger.note(room.node.id)

    def _placed(self, now_s: float) -> list[int]:
        """Who starts now, by the policy; their resources are taken and their ends drawn."""
        scene = self._scene
        ledger = self._ledger.copy()
        more_s = now_s - scene.now_s
        jobs = [job for job in self._waiting.values() if ledger.over_quota(job) is None]
        for job in jobs:
            # The draw's own copies, which nobody else holds: making new ones at every step would take half of the time.
            object.__setattr__(job, "wait_s", self._waited_s[job.id] + more_s)
        moment = Moment(now_s, ledger.gpus_up, len(jobs) + len(self._running))
        queue = order(jobs, scene.policy.priority(scene.parameters), moment, scene.age)
        live = tuple(self._running.values())
        cost_s = scene.parameters.restart_cost_s
        settled = settle(jobs, live, ledger, scene.estimator, now_s=now_s, restart_cost_s=cost_s)
        kept = settled.started.keys() | settled.waiting.keys()
        free = [each for each in queue if each.job.id not in kept]
        outcome = scene.policy.place(self._work(free, ledger, live, now_s))
        chosen = {**settled.started, **outcome.chosen}
        for job_id in sorted(outcome.invalid):
            self._waiting.pop(job_id, None)
        return [self._start(job_id, chosen[job_id], now_s) for job_id in sorted(chosen)]

    def _work(self, queue: Sequence[Ranked], ledger: Ledger, live: tuple[Running, ...], now_s: float) -> Work:
        scene = self._scene
        state = replace(scene.state, running=live)
        # The virtual clock stands still while the policy places: the forecast's own limit is between the steps.
        return Work(queue, ledger, scene.estimator, scene.parameters, self._rng, lambda: 0.0, 1e9, state, now_s)

    def _start(self, job_id: int, chosen: Chosen, now_s: float) -> int:
        job = self._waiting.pop(job_id)
        placement = self._ledger.take(chosen.configuration, job.tenant)
        expected_s = self._scene.expected_s(job, chosen)
        end_s = now_s + expected_s * self._factor[job_id]
        self._running[job_id] = Running(
            job_id, job.tenant, placement.pieces, now_s, job.requirement, expected_end_s=now_s + expected_s
        )
        heappush(self._ends, (end_s, job_id))
        return job_id


def _sound_nodes(state: ClusterState) -> list[Node]:
    sound: dict[int, Node] = {}
    for node in state.nodes:
        try:
            check_node(node, state.gpu_speeds, listed=sound)
        except InvalidNode:
            continue  # the planning names it
        sound[node.id] = node
    return list(sound.values())


def _sound_jobs(state: ClusterState, nodes: Sequence[Node]) -> list[Job]:
    known = {node.gpu_type for node in nodes if node.gpu_type} | set(state.gpu_speeds)
    sound: dict[int, Job] = {}
    for job in state.jobs:
        try:
            check_job(job, known, listed=sound)
        except InvalidJob:
            continue  # the planning names it
        sound[job.id] = job
    return list(sound.values())
