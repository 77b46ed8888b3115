"""The simulator's engine (algorithms.md section 13): discrete events on a virtual clock around the service's own planning.

What happens at one instant happens in this order: attempts end, ordered stops are through, profiles are known, jobs
arrive, then a planning is made if one is due. Plans are applied to the letter, as the portal applies them: what is placed
starts at once, who is ordered to stop waits again after `stop_s`, promises are kept with their jobs. A planning is due at
the first multiple of `tick_s` after something happened; a re-plan at each multiple of `replan_s` while jobs are live, if
the policy re-plans; and one more at once when the window ran out before the idle GPUs did, or when stops that take no
time freed what is promised. The rules in full: docs/simulator.md.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import numpy as np

from scheduler.model import ArrayHistory, Promise, Result
from scheduler.planning import plan, window_ran_out
from scheduler.simulator.errors import SimulationError
from scheduler.simulator.floor import Event, Floor
from scheduler.simulator.load import Load, count_work
from scheduler.simulator.observe import state_of
from scheduler.simulator.records import JobRecord, PlanningRecord, Run
from scheduler.simulator.rivals import policy_named
from scheduler.simulator.soundness import check

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scheduler.model import Clock, ClusterState, Plan, StopOrder
    from scheduler.policy import Parameters
    from scheduler.simulator.load import Attempt
    from scheduler.simulator.truth import TracedJob, World

    Watch = Callable[[ClusterState, Plan], None]

REPEATS = 20
"""Plannings at one instant at most, as in the service."""

NO_LIMIT_S = 1e9
"""The time limit of a planning: none. Its clock stands still too, so that no plan depends on the machine's speed."""

STUCK_REPLANS = 3
"""Re-plans on an idle cluster that start nobody, nobody being expected: those who wait can never start."""

PROGRESS_EVERY = 256
"""Plannings between two reports of progress."""


def simulate(
    jobs: Iterable[TracedJob],
    world: World,
    parameters: Parameters,
    *,
    seed: int,
    clock: Clock,
    progress: Callable[[float, int], None] | None = None,
    until_s: float | None = None,
) -> Run:
    """What becomes of the jobs under `parameters.policy` (ours or a rival's).

    `clock`: monotonic, for the records' `solve_s` alone; nothing else depends on it. `progress` is told (virtual seconds,
    jobs ended) now and then, and may raise to give up. `until_s`: cut off then. The same arguments give an equal Run,
    `solve_s` apart. SimulationError: jobs or a world that cannot be.
    """
    engine = Engine(jobs, world, parameters, seed=seed, clock=clock, progress=progress)
    engine.run(math.inf if until_s is None else until_s)
    return engine.result()


class Engine:
    """One simulation. `run` takes it to a time; it can be looked at there, given more jobs, and taken on."""

    def __init__(
        self,
        jobs: Iterable[TracedJob],
        world: World,
        parameters: Parameters,
        *,
        seed: int,
        clock: Clock,
        progress: Callable[[float, int], None] | None = None,
        watch: Watch | None = None,
    ) -> None:
        """`watch` is shown every planning: what it was told, and what it decided."""
        self.policy = policy_named(parameters.policy)
        self.parameters, self.seed, self._clock = parameters, seed, clock
        self._limitless = replace(parameters, time_limit_s=NO_LIMIT_S)
        self._progress, self._watch = progress or (lambda *_: None), watch
        self.now_s = 0.0
        self._events: list[tuple[float, int, int, int, Attempt | None]] = []
        self._announced = 0
        self.floor = Floor(world, seed, parameters.raqlr_hours, self._announce)
        self._planning_at_s = math.inf
        self._round_s = parameters.replan_s  # the next round begins, with its re-plan
        self._arrays = ArrayHistory()
        self._plannings: list[PlanningRecord] = []
        self._to_come = self._fruitless = 0
        for traced in sorted(jobs, key=lambda each: (each.job.submitted_s, each.job.id)):
            self.submit(traced)

    def submit(self, traced: TracedJob) -> None:
        """A job that will arrive."""
        check(traced, self.floor.loads, self.now_s)
        self.floor.loads[traced.job.id] = Load(traced)
        self._to_come += 1
        self._announce(traced.job.submitted_s, Event.ARRIVAL, traced.job.id, None)

    def run(self, until_s: float = math.inf) -> None:
        """Everything that happens up to then, that moment included."""
        while self._events and self._events[0][0] <= until_s:
            self.now_s = max(self.now_s, self._events[0][0])
            self._happen()
            if self._planning_at_s <= self.now_s:
                self._plan_here()
        if math.isfinite(until_s):
            self.now_s = max(self.now_s, until_s)

    def result(self) -> Run:
        """The records so far."""
        floor, parameters = self.floor, self.parameters
        for load in floor.running.values():
            count_work(load, self.now_s)
        return Run(
            self.policy.name,
            self.seed,
            floor.cluster.gpus_total,
            floor.cluster.cores_total,
            parameters.tick_s,
            parameters.replan_s,
            [_job_record(load, self.now_s) for load in floor.loads.values()],
            self._plannings,
            max((load.ended_s for load in floor.loads.values() if load.ended_s is not None), default=0.0)
            if not floor.running and not floor.waiting
            else self.now_s,
            asdict(parameters),
        )

    def _announce(self, at_s: float, event: Event, number: int, attempt: Attempt | None) -> None:
        self._announced += 1
        heapq.heappush(self._events, (at_s, int(event), number, self._announced, attempt))

    def _happen(self) -> None:
        """All events of this instant."""
        something = False
        while self._events and self._events[0][0] <= self.now_s:
            _, event, number, _, attempt = heapq.heappop(self._events)
            something |= self._one(Event(event), number, attempt)
        if something:
            self._plan_by(self.now_s)

    def _one(self, event: Event, number: int, attempt: Attempt | None) -> bool:
        """Let one event happen; whether a planning follows it."""
        if event is Event.ARRIVAL:
            self._to_come -= 1
            self.floor.arrive(self.floor.loads[number], self.now_s)
        elif event is Event.END or event is Event.STOPPED:
            load = self.floor.loads[number]
            if attempt is None or load.attempt is not attempt or (event is Event.END and attempt.end_s > self.now_s):
                return False  # it ended otherwise, or its speed has changed
            (self.floor.end if event is Event.END else self.floor.stopped)(load, attempt, self.now_s)
        return event is not Event.PLANNING

    def _plan_by(self, at_s: float) -> None:
        """Have a planning at the first tick that is not before then."""
        tick_s = self.floor.world.tick_s
        due_s = at_s if tick_s <= 0 else max(at_s, math.ceil(at_s / tick_s - 1e-9) * tick_s)
        if due_s < self._planning_at_s:
            self._planning_at_s = due_s
            self._announce(due_s, Event.PLANNING, 0, None)

    def _plan_here(self) -> None:
        self._planning_at_s = math.inf
        for _ in range(REPEATS):
            if not self._plan_once():
                break
        floor = self.floor
        if self.policy.replans and (floor.waiting or floor.running) and self._fruitless < STUCK_REPLANS:
            self._plan_by(self._round_s)

    def _plan_once(self) -> bool:
        """One planning, applied; whether another should follow at once."""
        floor, now_s, began_s = self.floor, self.now_s, self._clock()
        replan = now_s >= self._round_s
        if replan or not self._plannings:
            self._arrays = floor.past.arrays(now_s)
            self._round_s = (math.floor(now_s / self.parameters.replan_s) + 1) * self.parameters.replan_s
        self._look(now_s)
        state = state_of(floor, self._arrays, now_s)
        rng = np.random.default_rng([self.seed, len(self._plannings)])
        made = plan(state, now_s, self._limitless, rng, _standing, replan=replan, policy=self.policy)
        solve_s = self._clock() - began_s
        again = self._apply(made, round_begins=replan)
        if self._watch is not None:
            self._watch(state, made)
        self._plannings.append(self._record(made, solve_s))
        if len(self._plannings) % PROGRESS_EVERY == 0:
            self._progress(now_s, floor.ended)
        return again

    def _look(self, now_s: float) -> None:
        """What instrumented jobs tell now, and what can be profiled."""
        floor = self.floor
        for load in floor.reporting.values():
            floor.knowing.measure(load, now_s)
            count_work(load, now_s)
        for at_s in floor.knowing.profile(now_s, floor.cluster.idle_types):
            self._announce(at_s, Event.PROFILED, 0, None)

    def _apply(self, made: Plan, *, round_begins: bool) -> bool:
        """Do what the plan says; whether stops that took no time have freed something."""
        floor, now_s = self.floor, self.now_s
        for number in made.lapsed:
            floor.loads[number].promise = None
        for decision in made.decisions:
            load = floor.loads[decision.job]
            if decision.placement is not None:
                floor.start(load, decision.placement, decision.age_s, now_s)
            elif decision.result is Result.INVALID:
                floor.refuse(load, now_s)
            else:
                load.waits_from(now_s, eligible=decision.eligible)
        stopped = [self._order(order) for order in made.stops]
        for given in made.promises:
            floor.loads[given.job].promise = Promise(given.shares, now_s, given.cause)
        placed = len(made.placements)
        idle = not floor.running and not self._to_come and not made.promises
        self._fruitless = (
            self._fruitless + 1 if idle and not placed and round_begins else self._fruitless * (not placed)
        )
        return any(stopped) or (placed > 0 and window_ran_out(made))

    def _order(self, order: StopOrder) -> bool:
        """Ask an attempt to stop; whether it has at once."""
        load, stop_s = self.floor.loads[order.job], self.floor.world.stop_s
        attempt = load.attempt
        if attempt is None or attempt.stopping or not load.traced.job.movable:
            raise SimulationError(
                f"a plan stops job {order.job}, which does not run, is stopping or may not be stopped"
            )
        attempt.order = order
        load.causes.append(order.cause)
        if stop_s > 0:
            self._announce(self.now_s + stop_s, Event.STOPPED, load.id, attempt)
            return False
        self.floor.stopped(load, attempt, self.now_s)
        return True

    def _record(self, made: Plan, solve_s: float) -> PlanningRecord:
        floor = self.floor
        waiting = [load for load in floor.waiting.values() if load.since_s is not None]
        cpu_jobs = sum(load.traced.job.is_cpu for load in waiting)
        return PlanningRecord(
            at_s=self.now_s,
            replan=made.replan,
            queue_gpu_jobs=len(waiting) - cpu_jobs,
            queue_cpu_jobs=cpu_jobs,
            gpus_allocated=floor.cluster.gpus_held,
            cores_allocated=floor.cluster.cores_held,
            fragments=made.metrics.fragments_cores + made.metrics.fragments_scattered,
            placed=len(made.placements),
            stopped=len(made.stops),
            rate=floor.rate,
            solve_s=solve_s,
            gap=made.solver.gap,
        )


def _standing() -> float:
    """The clock of a planning: it stands still."""
    return 0.0


def _job_record(load: Load, now_s: float) -> JobRecord:
    job, attempt = load.traced.job, load.attempt
    running_s = now_s - attempt.started_s if attempt is not None else 0.0
    ran_s = load.ran_s + running_s
    gpu_s = load.gpu_s + running_s * (attempt.gpus if attempt is not None else 0)
    return JobRecord(
        job=load.id,
        name=load.traced.name,
        tenant=job.tenant,
        category=job.category,
        requirement=job.requirement,
        submitted_s=job.submitted_s,
        started_s=load.first_started_s,
        ended_s=load.ended_s,
        state=load.state,
        wait_s=load.wait_s(now_s),
        age_s=load.age_s,
        ran_s=ran_s,
        gpu_s=gpu_s,
        restarts=load.restarts,
        gpus_first=load.gpus_first,
        gpus_mean=gpu_s / ran_s if ran_s else 0.0,
        ideal_s=load.ideal_s,
    )
