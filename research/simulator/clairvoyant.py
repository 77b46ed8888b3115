"""What a scheduler that knows everything could do with a workload if placement were free: relaxed clairvoyant schedules.

Each GPU type is one pool: no nodes, no fragments, no limits of cores or memory. Lengths and speeds are known exactly. A job may
be stopped, moved or resized at any instant at no cost, and what is handed out changes at every arrival and end. Jobs take turns
in one of two orders:

- `least-work`: least work left first, in GPU-seconds of the cluster's mean GPU at its most frugal size (SRPT): for the mean JCT;
- `latency-ratio`: largest waiting over age first, computed again every `STEP_S` (Hops' fairness): what fairness costs.

At its turn a job takes, of the sizes and types that the pools still hold, the one with the largest speed / GPUs^theta (GPUs
weighted by their type's speed): theta 1 is the most frugal, 0 the fastest. What is left over then makes jobs faster, in the same
order. Of `THETAS` the one with the best mean JCT counts. Real policies know less, pay for restarts and have to use nodes: their
distance from this is what better knowledge, placement and order together could bring. It is *not* a proven bound: no order is
optimal for jobs that run beside each other, and another rule for sizes might do better.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from scheduler.simulator.world.truth import Spot, TracedJob, World

if TYPE_CHECKING:
    from scheduler.model import Node

LEAST_WORK, LATENCY_RATIO = "least-work", "latency-ratio"
ORDERS = (LEAST_WORK, LATENCY_RATIO)
THETAS = (0.5, 0.7, 0.8, 0.9, 1.0)
STEP_S = 120.0
HOUR_S = 3600.0


class Way(NamedTuple):
    """A way to run a job: so many GPUs of the type with that index, and its speed there."""

    pool: int
    gpus: int
    rate: float


@dataclass(slots=True)
class _Task:
    """A job that has come. `left`: its remaining work; `way`: how it runs at present."""

    job: int
    arrival_s: float
    left: float
    frugal_s: float  # GPU-seconds a unit of work, at its most frugal
    age_s: float
    preferred: Sequence[Way]
    fastest: Sequence[Way]
    waited_s: float = 0.0
    way: Way | None = None
    ended_s: float = math.inf


class Relaxed:
    """The relaxed cluster, and every job's ways to run on it."""

    def __init__(self, jobs: Sequence[TracedJob], world: World) -> None:
        by_type: dict[str, list[Node]] = {}
        for node in world.nodes:
            if node.gpus_total:
                by_type.setdefault(node.gpu_type or "", []).append(node)
        self._types = sorted(by_type)
        self.pools = [sum(node.gpus_total for node in by_type[name]) for name in self._types]
        self._shapes = [_Shape(by_type[name], world.speeds) for name in self._types]
        self.jobs = [(each, found) for each in jobs if not each.job.is_cpu and (found := self._ways(each))]
        self.weights = self._speeds_of_types()

    def _ways(self, traced: TracedJob) -> list[Way]:
        job, found = traced.job, list[Way]()
        for pool, (name, shape) in enumerate(zip(self._types, self._shapes, strict=True)):
            if not job.may_use(name):
                continue
            for size in job.requirement:
                if size <= self.pools[pool]:
                    found.append(Way(pool, size, traced.law.rate(shape.spots(name, size, job.cores))))
        return found

    def _speeds_of_types(self) -> list[float]:
        """A GPU of each type over the mean GPU, by the speeds that the jobs have there (geometric means)."""
        logs: list[list[float]] = [[] for _ in self.pools]
        for _, ways in self.jobs:
            per_gpu = {way.pool: way.rate / way.gpus for way in reversed(ways)}
            mean = math.fsum(map(math.log, per_gpu.values())) / len(per_gpu)
            for pool, speed in per_gpu.items():
                logs[pool].append(math.log(speed) - mean)
        speeds = [math.exp(math.fsum(each) / len(each)) if each else 1.0 for each in logs]
        whole = math.fsum(count * speed for count, speed in zip(self.pools, speeds, strict=True))
        return [speed * sum(self.pools) / whole for speed in speeds]

    def schedule(self, order: str, theta: float) -> list[_Task]:
        """Run every job to its end in that order."""
        coming = sorted(
            (self._task(traced, ways, theta) for traced, ways in self.jobs),
            key=lambda each: (-each.arrival_s, -each.job),
        )
        live: list[_Task] = []
        ended: list[_Task] = []
        now_s = coming[-1].arrival_s if coming else 0.0
        while live or coming:
            while coming and coming[-1].arrival_s <= now_s:
                live.append(coming.pop())
            live.sort(key=_least_work if order == LEAST_WORK else _latency_ratio)
            self._give_out(live)
            next_s = _next_s(live, coming, now_s, STEP_S if order == LATENCY_RATIO else math.inf)
            _advance(live, next_s - now_s)
            now_s = next_s
            for task in live:
                if task.left <= 0:
                    task.ended_s = now_s
                    ended.append(task)
            live = [task for task in live if task.left > 0]
        return ended

    def _task(self, traced: TracedJob, ways: Sequence[Way], theta: float) -> _Task:
        weighed = [(way, way.gpus * self.weights[way.pool]) for way in ways]
        preferred = [way for way, gpus in sorted(weighed, key=lambda each: (-each[0].rate / each[1] ** theta, each[1]))]
        frugal_s = min(gpus / way.rate for way, gpus in weighed)
        fastest = sorted(ways, key=lambda way: (-way.rate, way.gpus))
        return _Task(
            traced.job.id, traced.job.submitted_s, traced.work, frugal_s, self._age_s(traced, ways), preferred, fastest
        )

    def _age_s(self, traced: TracedJob, ways: Sequence[Way]) -> float:
        """Hops eq. 9 with the true speeds of the smallest size, or what its tenant expects."""
        if traced.job.expected_duration_s is not None:
            return traced.job.expected_duration_s
        smallest = {way.pool: way.rate / way.gpus for way in reversed(ways)}
        gpus = sum(self.pools[pool] for pool in smallest)
        mean_size = sum(traced.job.requirement) / len(traced.job.requirement)
        return math.fsum(self.pools[pool] / gpus * traced.work / (rate * mean_size) for pool, rate in smallest.items())

    def _give_out(self, live: Sequence[_Task]) -> None:
        idle = list(self.pools)
        left = sum(idle)
        for task in live:
            task.way = None
            if left:
                for way in task.preferred:
                    if idle[way.pool] >= way.gpus:
                        task.way = way
                        idle[way.pool] -= way.gpus
                        left -= way.gpus
                        break
        for task in live if left else ():
            own = task.way
            if own is None:
                continue
            for way in task.fastest:
                if way.rate <= own.rate:
                    break
                if idle[way.pool] + (own.gpus if own.pool == way.pool else 0) >= way.gpus:
                    idle[own.pool] += own.gpus
                    idle[way.pool] -= way.gpus
                    task.way = way
                    break


class _Shape:
    """As few nodes of a type as hold some GPUs, at the mean speed of the type's nodes."""

    def __init__(self, nodes: Sequence[Node], speeds: Mapping[int, float]) -> None:
        self._nodes = sorted(nodes, key=lambda node: (-node.gpus_total, node.id))
        gpus = sum(node.gpus_total for node in nodes)
        self._speed = math.fsum(node.gpus_total * speeds.get(node.id, 1.0) for node in nodes) / gpus

    def spots(self, name: str, size: int, cores: int) -> list[Spot]:
        found: list[Spot] = []
        for node in self._nodes:
            gpus = min(size, node.gpus_total)
            found.append(Spot(node.id, name, gpus, gpus * cores, self._speed))
            size -= gpus
            if not size:
                break
        return found


def _least_work(task: _Task) -> tuple[float, int]:
    return task.left * task.frugal_s, task.job


def _latency_ratio(task: _Task) -> tuple[float, int]:
    return -task.waited_s / task.age_s, task.job


def _next_s(live: Sequence[_Task], coming: Sequence[_Task], now_s: float, step_s: float) -> float:
    ends = [now_s + task.left / task.way.rate for task in live if task.way is not None]
    return min([*ends, coming[-1].arrival_s if coming else math.inf, now_s + step_s])


def _advance(live: Sequence[_Task], time_s: float) -> None:
    for task in live:
        if task.way is None:
            task.waited_s += time_s
        else:
            worked = time_s * task.way.rate
            # What is left after the last of its work are the digits of the clock.
            task.left = task.left - worked if task.left - worked > 1e-9 * worked else 0.0


def clairvoyant(jobs: Sequence[TracedJob], world: World, order: str) -> dict[str, Any]:
    """The best of `THETAS` in that order, as the report names its figures. Jobs without GPUs are left out.

    A job that no pool can hold is left out too, and not counted in `jobs`. ValueError for an order that there is not.
    """
    if order not in ORDERS:
        raise ValueError(f"{order!r} is not one of {', '.join(ORDERS)}")
    relaxed = Relaxed(jobs, world)
    every = [(theta, relaxed.schedule(order, theta)) for theta in THETAS]
    return min((_figures(theta, ended) for theta, ended in every), key=lambda each: each["mean_jct_h"] or 0.0)


def _figures(theta: float, ended: Sequence[_Task]) -> dict[str, Any]:
    if not ended:
        return {"jobs": 0, "theta": theta, "mean_jct_h": None}
    count = len(ended)
    began_s = min(task.arrival_s for task in ended)
    ratios = [task.waited_s / task.age_s for task in ended]
    return {
        "jobs": count,
        "theta": theta,
        "mean_jct_h": math.fsum(task.ended_s - task.arrival_s for task in ended) / count / HOUR_S,
        "makespan_h": (max(task.ended_s for task in ended) - began_s) / HOUR_S,
        "mean_wait_h": math.fsum(task.waited_s for task in ended) / count / HOUR_S,
        "mean_lr": math.fsum(ratios) / count,
        "max_lr": max(ratios),
    }
