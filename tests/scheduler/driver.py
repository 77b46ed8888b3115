"""A virtual cluster that applies plans to the letter: the second driver of the core beside the portal.

Time is virtual. A job has an amount of work, in seconds on one GPU of speed 1; r GPUs do r * r^-0.1 of it a second, the
speed that the core assumes. Placements start at once; a stop takes `stop_s`, then the job waits again with its work
kept; an attempt after the first loses the restart cost before it goes on; promises are stored with their jobs.
A planning is made whenever something happened, and a re-plan every `replan_s`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np

from scheduler.model import ClusterState, Job, Node, Placement, Plan, Promise, Running, StopOrder
from scheduler.planning import plan
from scheduler.policy import Parameters
from tests.scheduler.builders import check_feasible, ticking

SCALING = 0.9  # r GPUs are worth r^0.9


@dataclass
class Load:
    """A submitted job: the core's description of it, its work, and what became of it so far."""

    job: Job
    work: float
    done: float = 0.0
    waited_s: float = 0.0
    since_s: float = 0.0  # waiting or running since
    attempt: Placement | None = None
    first_started_s: float | None = None
    restarts: int = 0
    order: StopOrder | None = None
    stopped_s: float | None = None  # when the ordered stop will be through
    promise: Promise | None = None
    gave_back: bool = False
    ended_s: float | None = None
    ran_s: float = 0.0
    sizes: list[int] = field(default_factory=list)
    causes: list[str] = field(default_factory=list)

    @property
    def speed(self) -> float:
        return self.attempt.gpus**SCALING if self.attempt.gpus else 1.0

    def end_s(self, restart_s: float) -> float:
        """When the present attempt will have done the work, unless it is stopped."""
        lost_s = restart_s if self.restarts else 0.0
        return self.since_s + lost_s + (self.work - self.done) / self.speed


class Driver:
    """`run` to a time; `log` keeps every plan, `loads` every job."""

    def __init__(self, nodes: list[Node], *, stop_s: float = 20.0, seed: int = 1, **knobs) -> None:
        self.parameters = Parameters.from_mapping({"policy": "berth", "tick_s": 30, **knobs})
        self.nodes, self.stop_s, self.seed = nodes, stop_s, seed
        self.now_s, self.replanned_s = 0.0, 0.0
        self.loads: dict[int, Load] = {}
        self.arrivals: list[tuple[float, Job, float]] = []
        self.log: list[Plan] = []

    def submit(self, job: Job, work: float, at_s: float = 0.0) -> None:
        self.arrivals.append((at_s, replace(job, submitted_s=at_s), work))
        self.arrivals.sort(key=lambda each: (each[0], each[1].id))

    def run(self, until_s: float) -> None:
        """Everything that happens up to then, that moment included."""
        while True:
            self._arrive()
            replan = self.now_s - self.replanned_s >= self.parameters.replan_s
            if replan:
                self.replanned_s = self.now_s
            self._apply(self._plan(replan))
            next_s = self._next_s()
            self.now_s = min(next_s, until_s)
            if next_s > until_s:
                return
            self._end()

    def _arrive(self) -> None:
        while self.arrivals and self.arrivals[0][0] <= self.now_s:
            at_s, job, work = self.arrivals.pop(0)
            self.loads[job.id] = Load(job, work, since_s=at_s)

    def _next_s(self) -> float:
        times = [self.replanned_s + self.parameters.replan_s, *(at_s for at_s, _, _ in self.arrivals[:1])]
        for load in self.live():
            times += [load.end_s(self._restart_s), *([load.stopped_s] if load.stopped_s is not None else [])]
        return max(self.now_s, min(times))

    @property
    def _restart_s(self) -> float:
        return self.parameters.restart_cost_s

    def live(self) -> list[Load]:
        return [load for load in self.loads.values() if load.attempt is not None]

    def _end(self) -> None:
        for load in self.live():
            if load.end_s(self._restart_s) <= self.now_s:
                load.ran_s += self.now_s - load.since_s
                load.attempt, load.order, load.stopped_s, load.promise = None, None, None, None
                load.done, load.ended_s = load.work, self.now_s
            elif load.stopped_s is not None and load.stopped_s <= self.now_s:
                lost_s = self._restart_s if load.restarts else 0.0
                load.done += max(0.0, self.now_s - load.since_s - lost_s) * load.speed
                load.ran_s += self.now_s - load.since_s
                load.restarts += 1
                load.gave_back = load.order.cause == "call-back"
                load.attempt, load.order, load.stopped_s, load.since_s = None, None, None, self.now_s

    def state(self) -> ClusterState:
        held = [piece for load in self.live() for piece in load.attempt.pieces]
        used = {(piece.node, "gpu", index) for piece in held for index in piece.gpus}
        used |= {(piece.node, "core", index) for piece in held for index in piece.cores}
        memory = Counter()
        for piece in held:
            memory[piece.node] += piece.memory_mib
        nodes = [
            replace(
                node,
                idle_gpus=tuple(g for g in range(node.gpus_total) if (node.id, "gpu", g) not in used),
                idle_cores=tuple(c for c in range(node.cores_total) if (node.id, "core", c) not in used),
                idle_memory_mib=node.memory_total_mib - memory[node.id],
            )
            for node in self.nodes
        ]
        waiting = [load for load in self.loads.values() if load.attempt is None and load.ended_s is None]
        return ClusterState(nodes, [self._job(load) for load in waiting], [self._running(load) for load in self.live()])

    def _job(self, load: Load) -> Job:
        waiting_s = self.now_s - load.since_s if load.attempt is None else 0.0
        return replace(
            load.job, wait_s=load.waited_s + waiting_s, promise=load.promise, gave_back=load.gave_back,
            done_fraction=load.done / load.work,
        )  # fmt: skip

    def _running(self, load: Load) -> Running:
        job = load.job
        elastic = len(job.requirement) > 1
        return Running(
            job.id,
            job.tenant,
            load.attempt.pieces,
            load.since_s,
            job.requirement,
            elastic=elastic,
            movable=job.movable,
            expected_end_s=load.end_s(self._restart_s),
            description=self._job(load) if elastic and job.movable else None,
            restarts=load.restarts,
            first_started_s=load.first_started_s,
            stopping=load.stopped_s is not None,
        )

    def _plan(self, replan: bool) -> Plan:
        state = self.state()
        rng = np.random.default_rng([self.seed, len(self.log)])
        made = plan(state, self.now_s, self.parameters, rng, ticking(), replan=replan)
        check_feasible(made, state)
        self.log.append(made)
        return made

    def _apply(self, made: Plan) -> None:
        for number in made.lapsed:
            self.loads[number].promise = None
        for placement in made.placements:
            load = self.loads[placement.job]
            load.waited_s += self.now_s - load.since_s
            load.attempt, load.since_s, load.promise, load.gave_back = placement, self.now_s, None, False
            load.sizes.append(placement.gpus)
            if load.first_started_s is None:
                load.first_started_s = self.now_s
        for order in made.stops:
            load = self.loads[order.job]
            assert load.attempt is not None, "only what runs is stopped"
            assert load.stopped_s is None, "nobody is stopped twice"
            load.order, load.stopped_s = order, self.now_s + self.stop_s
            load.causes.append(order.cause)
        for given in made.promises:
            assert self.loads[given.job].promise is None, "nobody has two promises"
            self.loads[given.job].promise = Promise(given.shares, self.now_s, given.cause)
