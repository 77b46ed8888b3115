"""The simulator's engine (algorithms.md section 13): discrete events on a virtual clock around the service's own planning.

The events of one instant happen in this order: attempts end; ordered stops are done; steps of core tuning and periods of
watching a node's memory end; profiles are known; nodes close; jobs arrive; and then a planning is made if one is due. Plans are
applied as the portal applies them: placed jobs start at once, a job that must stop waits again after `stop_s`, and promises are
stored with their jobs. A planning is due at the first multiple of `tick_s` after something happened. A re-plan is due at each
multiple of `replan_s` while jobs are live, if the policy re-plans. One more planning follows at once when the window ran out
before the idle GPUs did, or when stops that take no time freed promised resources. docs/simulator.md has the rules in full.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np

from scheduler.copies import replace
from scheduler.intake.bays import TURN_S
from scheduler.model import ArrayHistory, Clock, ClusterState, Plan, Promise, StopOrder
from scheduler.parameters import Parameters
from scheduler.planning.plan import REPEATS, decide, plan
from scheduler.simulator.live_input import LiveInput
from scheduler.simulator.load import Attempt, Load, count_work
from scheduler.simulator.observe import state_of
from scheduler.simulator.records import PlanningRecord, Run, job_record, planning_record
from scheduler.simulator.rivals import policy_named
from scheduler.simulator.rounds import Progress, Rounds
from scheduler.simulator.simulated import Event, SimulatedCluster
from scheduler.simulator.world.truth import TracedJob, World, check

if TYPE_CHECKING:
    from scheduler.planning.decided import Decided
    from scheduler.policies.policy import Policy

    Watch = Callable[[ClusterState, Callable[[], Plan], Decided], None]

NO_LIMIT_S = 1e9
"""The time limit of a planning: in effect none. Its clock stands still too, so that no plan depends on the machine's speed."""

STUCK_REPLANS, STUCK_DEALT = 3, 16
"""Re-plans on an idle cluster that start no job, with no job to come, after which the waiting jobs can never start. More where
nodes are dealt to their bays: jobs that do not fit one together take turns (`scheduler.intake.bays`)."""


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
        policy: Policy | None = None,
    ) -> None:
        """`watch` is called before each planning is applied, with a snapshot, a function that makes the service's plan of it, and
        the decisions from the engine's own input. `policy`: used in place of the one that the parameters name.
        """
        self.policy = policy or policy_named(parameters.policy)
        self.parameters, self.seed, self._clock = parameters, seed, clock
        self._limitless = replace(parameters, time_limit_s=NO_LIMIT_S)
        self._progress, self._watch = Progress(progress, clock()), watch
        self._undrawn = np.random.default_rng(seed)
        self.now_s, self._planning_at_s = 0.0, math.inf
        self._events: list[tuple[float, int, int, int, Attempt | None]] = []
        self.simulated = SimulatedCluster(world, seed, parameters, self._announce)
        self._inputs = LiveInput(self.simulated)
        self._rounds = Rounds(parameters.replan_s)
        self._arrays, self._ineligible = ArrayHistory(), set[int]()
        self._plannings: list[PlanningRecord] = []
        self._announced = self._to_come = self._fruitless = 0
        for node in world.nodes:
            if node.closes_s < math.inf:
                self._announce(node.closes_s, Event.CLOSED, node.id, None)
        for traced in sorted(jobs, key=lambda each: (each.job.submitted_s, each.job.id)):
            self.submit(traced)

    def submit(self, traced: TracedJob) -> None:
        """A job that will arrive."""
        check(traced, self.simulated.loads, self.now_s)
        self.simulated.loads[traced.job.id] = Load(traced)
        self._to_come += 1
        self._announce(traced.job.submitted_s, Event.ARRIVAL, traced.job.id, None)

    def run(self, until_s: float = math.inf) -> None:
        """Let everything happen up to that time, that moment included."""
        while self._events and self._events[0][0] <= until_s:
            self.now_s = max(self.now_s, self._events[0][0])
            self._happen()
            if self._planning_at_s <= self.now_s:
                self._plan_here()
        if math.isfinite(until_s):
            self.now_s = max(self.now_s, until_s)

    @property
    def arrays(self) -> ArrayHistory:
        """The history by which the arrays are divided now."""
        return self._arrays

    @property
    def replanned_s(self) -> float | None:
        """When the last re-plan was made; None = never."""
        return self._rounds.replanned_s

    def result(self) -> Run:
        """The records so far."""
        simulated, parameters = self.simulated, self.parameters
        for load in simulated.running.values():
            count_work(load, self.now_s)
        return Run(
            self.policy.name,
            self.seed,
            simulated.cluster.gpus_total,
            simulated.cluster.cores_total,
            parameters.tick_s,
            parameters.replan_s,
            [job_record(load, self.now_s) for load in simulated.loads.values()],
            self._plannings,
            max((load.ended_s for load in simulated.loads.values() if load.ended_s is not None), default=0.0)
            if not simulated.running and not simulated.waiting
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
        """Let one event happen. Returns whether a planning should follow it."""
        if event is Event.ARRIVAL:
            self._to_come -= 1
            self.simulated.arrive(self.simulated.loads[number], self.now_s)
            self._join(self.simulated.loads[number])
        elif event is Event.WATCHED:
            return number in self.simulated.cluster.nodes and self.simulated.relieve(number, self.now_s)
        elif event is Event.CLOSED:
            for load in self.simulated.close(number, self.now_s):
                self._join(load)
        elif event is Event.PROFILED:
            self.simulated.profiles.end(number, self.now_s)
        elif event is Event.END or event is Event.STOPPED:
            load = self.simulated.loads[number]
            if attempt is None or load.attempt is not attempt or (event is Event.END and attempt.end_s > self.now_s):
                return False  # it ended otherwise, or its speed has changed
            (self.simulated.end if event is Event.END else self.simulated.stopped)(load, attempt, self.now_s)
            self._join(load)
        elif event is Event.TUNED:
            load = self.simulated.loads[number]
            return attempt is not None and load.attempt is attempt and self.simulated.tune(load, attempt, self.now_s)
        return event is not Event.PLANNING

    def _join(self, load: Load) -> None:
        """The job waits, unless it is over."""
        if load.id in self.simulated.waiting and not self._inputs.join(load, self.now_s):
            self.simulated.refuse(load, self.now_s)

    def _plan_by(self, at_s: float) -> None:
        """Have a planning at the first tick that is not before then."""
        tick_s = self.simulated.world.tick_s
        due_s = at_s if tick_s <= 0 else max(at_s, math.ceil(at_s / tick_s - 1e-9) * tick_s)
        if due_s < self._planning_at_s:
            self._planning_at_s = due_s
            self._announce(due_s, Event.PLANNING, 0, None)

    def _plan_here(self) -> None:
        self._planning_at_s = math.inf
        for _ in range(REPEATS):
            if not self._plan_once():
                break
        simulated = self.simulated
        dealt = simulated.cluster.has_bays
        if self._fruitless < (STUCK_DEALT if dealt else STUCK_REPLANS):
            if self.policy.replans and (simulated.waiting or simulated.running):
                self._plan_by(self._rounds.next_s)
            elif (
                dealt and simulated.waiting
            ):  # the service plans each few seconds; here only another job's turn may change
                self._plan_by(self.now_s + TURN_S)

    def _plan_once(self) -> bool:
        """Make one planning and apply it. Returns whether another should follow at once."""
        now_s, began_s = self.now_s, self._clock()
        replan = now_s >= self._rounds.next_s
        decided = self._decide(replan=replan)
        planned_s = self._clock()
        self._show(decided, replan=replan)
        again = self._apply(decided, round_begins=replan)
        if decided.replan:
            self._rounds.replanned_s = now_s
        if decided.round_is_over(now_s):
            self._rounds.end_early(now_s)
            again = True
        elif decided.replan_s is not None:
            self._plan_by(decided.replan_s)
        solve_s = planned_s - began_s
        self._plannings.append(planning_record(self.simulated, decided, self._ineligible, now_s, solve_s))
        self._progress.after(len(self._plannings), planned_s, now_s, self.simulated.ended)
        return again

    def _decide(self, *, replan: bool) -> Decided:
        simulated, now_s = self.simulated, self.now_s
        if replan or not self._plannings:
            self._arrays = simulated.past.arrays(now_s)
            self._rounds.begin(now_s)
        for load in simulated.reporting.values():
            simulated.knowing.measure(load, now_s)
            count_work(load, now_s)
        self._inputs.open(now_s, self._arrays, self._rounds.replanned_s)
        return decide(
            self._inputs, now_s, self._limitless, self.policy, self._rng(), _standing, replan=replan, began_s=0.0
        )

    def _show(self, decided: Decided, *, replan: bool) -> None:
        """Show `watch` the snapshot and the decisions. It may plan itself, which takes as long again."""
        if self._watch is None:
            return
        state = state_of(self.simulated, self._arrays, self.now_s, self._rounds.replanned_s)

        def made() -> Plan:
            return plan(state, self.now_s, self._limitless, self._rng(), _standing, replan=replan, policy=self.policy)

        self._watch(state, made, decided)

    def _rng(self) -> np.random.Generator:
        """The random numbers of one planning. A policy that never re-plans draws none, so that one generator is enough."""
        if not self.policy.replans:
            return self._undrawn
        return np.random.default_rng([self.seed, len(self._plannings)])

    def _apply(self, decided: Decided, *, round_begins: bool) -> bool:
        """Apply the decisions. Returns whether another planning should follow at once."""
        simulated, now_s, outcome = self.simulated, self.now_s, decided.outcome
        for number in decided.lapsed:
            simulated.promise(simulated.loads[number], None)
        again = decided.window_ran_out
        ineligible = set(decided.ineligible())
        for number in ineligible ^ self._ineligible:
            if number in simulated.waiting:
                simulated.loads[number].waits_from(now_s, eligible=number not in ineligible)
        self._ineligible = ineligible
        for number, chosen in outcome.draft.chosen.items():
            load = simulated.loads[number]
            open_age = load.age_s is None or load.age_guessed
            simulated.start(load, chosen.placement, decided.line.age(load.traced.job) if open_age else None, now_s)
        for order in decided.measuring.profiles.orders:
            number, end_s = simulated.profiles.start(order, simulated.loads[order.job], now_s)
            self._announce(end_s, Event.PROFILED, number, None)
        for number in outcome.draft.invalid:
            simulated.refuse(simulated.loads[number], now_s)
        freed = [self._stop(order) for order in outcome.draft.stops]
        for given in outcome.draft.promises:
            simulated.promise(simulated.loads[given.job], Promise(given.shares, now_s, given.cause))
        idle = (
            not simulated.running and not len(simulated.profiles) and not self._to_come and not outcome.draft.promises
        )
        if outcome.draft.chosen or not idle:
            self._fruitless = 0
        elif round_begins:
            self._fruitless += 1
        return any(freed) or (again and bool(outcome.draft.chosen))

    def _stop(self, order: StopOrder) -> bool:
        """Order the stop. Returns whether it is done at once."""
        load, stop_s = self.simulated.loads[order.job], self.simulated.world.stop_s
        attempt = self.simulated.order_stop(load, order)
        if stop_s > 0:
            self._announce(self.now_s + stop_s, Event.STOPPED, load.id, attempt)
            return False
        self.simulated.stopped(load, attempt, self.now_s)
        self._join(load)
        return True


def _standing() -> float:
    """The clock of a planning: it stands still."""
    return 0.0


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
    """Simulate the jobs under `parameters.policy` (ours or a rival's).

    `clock`: monotonic; used only for the records' `solve_s`. `progress`: called with (virtual seconds, ended jobs) now and then;
    it may raise to end the simulation. `until_s`: the simulation is cut off then. The same arguments give an equal Run, except
    for `solve_s`. Raises SimulationError for jobs or a world that cannot be simulated.
    """
    engine = Engine(jobs, world, parameters, seed=seed, clock=clock, progress=progress)
    engine.run(math.inf if until_s is None else until_s)
    return engine.result()
