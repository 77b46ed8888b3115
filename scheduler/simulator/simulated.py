"""The simulated cluster: which jobs wait and run, how fast, and their changes when attempts start and end."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import Any

import numpy as np

from scheduler.contention import Rules
from scheduler.fairness.lrf import BY_SAMPLES, Age, is_guess
from scheduler.model import Piece, Placement, Promise, Span, StopOrder
from scheduler.parameters import Parameters
from scheduler.placement.free_capacity import largest_nodes
from scheduler.simulator.cluster import Ask, Cluster
from scheduler.simulator.load import SPANS_S, ArrivalQueue, Attempt, Load, count_work, rate_of
from scheduler.simulator.observe import restart_s
from scheduler.simulator.past import Past
from scheduler.simulator.relief import Relief
from scheduler.simulator.world import tuning
from scheduler.simulator.world.ideal import Ideal
from scheduler.simulator.world.knowing import Knowing, Profiles
from scheduler.simulator.world.truth import SimulationError, World


class Event(IntEnum):
    """The kinds of events, in the order in which they happen at one instant."""

    END = 0
    STOPPED = 1
    TUNED = 2
    WATCHED = 3
    PROFILED = 4
    CLOSED = 5
    ARRIVAL = 6
    PLANNING = 7


class SimulatedCluster:
    """Jobs by state, and the transitions between them. `announce` takes the coming events of attempts, with their times."""

    def __init__(
        self,
        world: World,
        seed: int,
        parameters: Parameters,
        announce: Callable[[float, Event, int, Attempt | None], None],
    ) -> None:
        self.world, self._seed, self._announce = world, seed, announce
        self._parameters = parameters
        self._tunes = world.tunes_cores and parameters.tune_cores == "on"
        self._tuning = largest_nodes(world.nodes) if self._tunes else {}
        self.cluster, self.past, self.knowing = Cluster(world), Past(parameters.raqlr_hours), Knowing(world)
        self.profiles = Profiles(world, self.cluster, self.knowing)
        self.ideal = Ideal(list(self.cluster.nodes.values()))
        self.loads: dict[int, Load] = {}
        self.waiting: dict[int, Load] = {}
        self.running: dict[int, Load] = {}
        self.reporting: dict[int, Load] = {}  # of those running
        self.stopping: dict[int, Load] = {}  # of those running
        relieves = world.relieves_memory and parameters.relieve_memory == "on"
        rules = Rules(parameters.relieve_threshold, parameters.noise_band)
        self.relief = Relief(self.cluster, self.running, rules) if relieves else None
        self.promised: dict[int, Load] = {}  # jobs with a promise, waiting or running
        self.line = ArrivalQueue()
        self.wanting: Counter[tuple[int, frozenset[str]]] = Counter()  # R_1 and types of the GPU jobs that wait
        self.asking: Counter[Ask] = Counter()  # their demands on a node
        self.cpu_waiting = 0
        self.ended = 0
        self.rate = 0.0  # of all that run, in GPUs' worth of work: see `Load.unit_rate`
        self.live_s = 0.0  # the integral of the number of live jobs over time, up to `_counted_s`
        self._counted_s = 0.0

    def arrive(self, load: Load, now_s: float) -> None:
        self._count_live(now_s)
        load.joined = self.live_s
        load.since_s = now_s
        load.unit_rate = self.ideal.unit_rate(load)
        self.past.arrived(load)
        if self._tunes:
            load.cores = tuning.wish(load, self.past, self._tuning)
        self.knowing.arrived(load)
        self._join(load, now_s)

    def start(self, load: Load, placement: Placement, age: Age | None, now_s: float) -> None:
        """A new attempt on these resources. `age`: as the planning has it; None where that was fixed before."""
        load.waits_from(now_s, eligible=False)
        self._leave_queue(load)
        self.running[load.id] = load
        self.cluster.take(placement.pieces, load.traced.job.tenant)
        lost_s = restart_s(load, self.world) if load.starts else 0.0
        attempt = Attempt(placement, now_s, now_s + lost_s, self._noise(load), counted_s=now_s, measured_s=now_s)
        if load.first_started_s is None:
            load.first_started_s, load.gpus_first = now_s, attempt.gpus
        if age is not None and (load.age_s is None or age.source == BY_SAMPLES):
            load.age_s, load.age_guessed = age.age_s, is_guess(load.traced.job.total_samples, age.source)
        self.promise(load, None)
        load.attempt, load.gave_back = attempt, False
        load.starts += 1
        load.sizes.append(attempt.gpus)
        if load.traced.reports:
            self.reporting[load.id] = load
        self._find_rate(load, now_s)
        self._press(attempt, load.traced.bandwidth_gbs, now_s)
        self._look(attempt.pieces, now_s)
        if tuning.is_tuned(load):
            self._announce(now_s + self._parameters.tune_step_s, Event.TUNED, load.id, attempt)

    def tune(self, load: Load, attempt: Attempt, now_s: float) -> bool:
        """A step of the search for the attempt's cores is over; whether that gave cores back."""
        piece = attempt.pieces[0]
        held, step_s = len(piece.cores), self._parameters.tune_step_s
        if self.relief is not None and self.relief.upset_since(piece.node, now_s - step_s):
            self._announce(now_s + step_s, Event.TUNED, load.id, attempt)  # once more, it tells nothing
            return False
        if tuning.step(load, self.cluster, attempt.rate / attempt.noise, self._parameters, now_s):
            self.past.tuned(load, now_s)
        else:
            self._announce(now_s + self._parameters.tune_step_s, Event.TUNED, load.id, attempt)
        holds, attempt.shown = len(attempt.pieces[0].cores), None
        if holds != held:
            self._find_rate(load, now_s)
            self._look(attempt.pieces, now_s)
        return holds < held

    def relieve(self, node: int, now_s: float) -> bool:
        """A period of watching the node's memory is over; whether cores have become idle."""
        assert self.relief is not None
        changed, freed = self.relief.period(node, now_s)
        released = self.relief.released_at(node, now_s)
        for load in self.running.values() if changed else ():
            if load.attempt is not None and any(piece.node == node for piece in load.attempt.pieces):
                self._find_rate(load, now_s)
                if released and tuning.again(load, node, now_s):
                    self._announce(now_s + self._parameters.tune_step_s, Event.TUNED, load.id, load.attempt)
        if self.relief.look(node):
            self._announce(now_s + self._parameters.relieve_period_s, Event.WATCHED, node, None)
        return freed

    def _look(self, pieces: Iterable[Piece], now_s: float) -> None:
        """Note that something came, went or changed its speed on these nodes."""
        if self.relief is None:
            return
        for piece in pieces:
            if self.relief.look(piece.node):
                self._announce(now_s + self._parameters.relieve_period_s, Event.WATCHED, piece.node, None)

    def _noise(self, load: Load) -> float:
        """The factor on the attempt's speed: lognormal with mean 1, the same for a job's k-th attempt in every run."""
        if self.world.noise <= 0:
            return 1.0
        sigma = math.sqrt(math.log(1.0 + self.world.noise**2))
        rng = np.random.default_rng([self._seed, load.id, load.starts])
        return float(math.exp(rng.normal(-sigma * sigma / 2, sigma)))

    def _press(self, attempt: Attempt, bandwidth_gbs: float, now_s: float) -> None:
        """Change the memory traffic on its nodes, and with it the speed of all jobs there."""
        changed = set(self.cluster.draw(attempt.pieces, bandwidth_gbs))
        for load in self.running.values() if changed else ():
            if load.attempt is not None and any(piece.node in changed for piece in load.attempt.pieces):
                self._find_rate(load, now_s)

    def _find_rate(self, load: Load, now_s: float) -> None:
        """Set the attempt's speed from now on, and when it will end."""
        attempt = load.attempt
        assert attempt is not None
        self.knowing.measure(load, now_s)  # its speed until now
        count_work(load, now_s)
        self.rate -= attempt.rate / load.unit_rate
        attempt.spots = self.cluster.spots(attempt.pieces)
        attempt.rate = rate_of(load, attempt.spots) * attempt.noise * attempt.share
        self.rate += attempt.rate / load.unit_rate
        left = max(0.0, self.target(load) - load.done)
        attempt.end_s = max(now_s, attempt.ready_s) + left / attempt.rate
        self._announce(attempt.end_s, Event.END, load.id, attempt)

    def target(self, load: Load) -> float:
        """The work after which the attempt ends: all of it, or the point where it fails."""
        fails = load.traced.fails if self.world.failures else ()
        return load.traced.work * fails[load.failures] if load.failures < len(fails) else load.traced.work

    def _leave(self, load: Load, attempt: Attempt, now_s: float) -> None:
        """End the attempt, and free its resources."""
        self._count_live(now_s)
        self.knowing.measure(load, now_s, last=True)
        count_work(load, now_s)
        ran_s = now_s - attempt.started_s
        load.ran_s += ran_s
        load.gpu_s += ran_s * attempt.gpus
        if attempt.gpus and ran_s > 0:
            span = Span(attempt.spots[0].gpu_type, attempt.gpus, attempt.started_s, now_s)
            load.spans = (*(each for each in load.spans if each.ended_s > now_s - SPANS_S), span)
        load.checkpoint_node = attempt.pieces[0].node
        self.rate -= attempt.rate / load.unit_rate
        load.attempt = None
        del self.running[load.id]
        self.reporting.pop(load.id, None)
        self.stopping.pop(load.id, None)
        if not self.running:
            self.rate = 0.0  # without the rest of rounding
        self.cluster.give(attempt.pieces, load.traced.job.tenant)
        self._press(attempt, -load.traced.bandwidth_gbs * attempt.share, now_s)
        self._look(attempt.pieces, now_s)

    def end(self, load: Load, attempt: Attempt, now_s: float) -> None:
        """The attempt reached its end: the job has completed, or has failed and may wait again."""
        target = self.target(load)
        self._leave(load, attempt, now_s)
        load.done = target
        self.promise(load, None)
        if target >= load.traced.work:
            self._finish(load, "COMPLETED", now_s)
            return
        load.failures += 1
        if load.failures > load.traced.retries:
            self._finish(load, "FAILED", now_s)
            return
        if not load.traced.job.movable:
            load.done, load.checkpoint_node = 0.0, None
        self._join(load, now_s)

    def stopped(self, load: Load, attempt: Attempt, now_s: float) -> None:
        """An ordered stop is done: the job's work is kept, and it waits again."""
        self._leave(load, attempt, now_s)
        load.restarts += 1
        load.gave_back = attempt.order is not None and attempt.order.cause == "call-back"
        self._join(load, now_s)

    def close(self, node: int, now_s: float) -> list[Load]:
        """The node ends: its jobs wait again, those from their start whose work is lost. Returns these jobs."""
        left = [
            (load, load.attempt)
            for load in self.running.values()
            if load.attempt is not None and any(piece.node == node for piece in load.attempt.pieces)
        ]
        for load, attempt in left:
            self._leave(load, attempt, now_s)
        self.cluster.close(node)
        domains = {each.domain for each in self.cluster.nodes.values()}
        for load, attempt in left:
            readable = self.world.shared_storage or self.cluster.domains[attempt.pieces[0].node] in domains
            if not load.traced.job.movable or not readable:
                load.done, load.checkpoint_node = 0.0, None
            self._join(load, now_s)
        return [load for load, _ in left]

    def refuse(self, load: Load, now_s: float) -> None:
        """The scheduler cannot plan with the job: it leaves the queue."""
        load.waits_from(now_s, eligible=False)
        self._count_live(now_s)
        self._leave_queue(load)
        self.promise(load, None)
        load.state = "INVALID"
        self.ended += 1
        self.knowing.ended(load)

    def order_stop(self, load: Load, order: StopOrder) -> Attempt:
        """Ask the job's attempt to stop. SimulationError if it may not be stopped."""
        attempt = load.attempt
        if attempt is None or attempt.stopping or not load.traced.job.movable:
            raise SimulationError(f"a plan stops job {load.id}, which does not run, is stopping or may not be stopped")
        attempt.order, attempt.shown = order, None
        self.stopping[load.id] = load
        load.causes.append(order.cause)
        return attempt

    def promise(self, load: Load, promise: Promise | None) -> None:
        """Store a promise with the job, or remove it."""
        load.promise, load.described = promise, None
        if promise is None:
            self.promised.pop(load.id, None)
        else:
            self.promised[load.id] = load
        if load.attempt is not None:
            load.attempt.shown = None

    def _join(self, load: Load, now_s: float) -> None:
        load.since_s, load.described = now_s, None
        self.waiting[load.id] = load
        self.line.join(load)
        self._count_waiting(load, 1)

    def _leave_queue(self, load: Load) -> None:
        del self.waiting[load.id]
        self.line.leave(load)
        self._count_waiting(load, -1)

    def _count_waiting(self, load: Load, sign: int) -> None:
        job = load.traced.job
        if job.is_cpu:
            self.cpu_waiting += sign
            return
        ask = (job.requirement, job.gpu_types, load.least_cores, job.memory_mib)
        counts: tuple[tuple[Counter[Any], object], ...] = (
            (self.wanting, (job.min_gpus, job.gpu_types)),
            (self.asking, ask),
        )
        for counter, key in counts:
            counter[key] += sign
            if not counter[key]:
                del counter[key]

    def gpus_short_of_cores(self) -> int:
        """Section 10's first kind: idle GPUs of nodes that would serve some waiting job, but for cores."""
        return self.cluster.gpus_short_of_cores(self.asking)

    def _finish(self, load: Load, state: str, now_s: float) -> None:
        load.state, load.ended_s = state, now_s
        self.ended += 1
        self.past.ended(load, now_s)
        self.knowing.ended(load)
        lived_s = now_s - load.traced.job.submitted_s
        jobs = (self.live_s - load.joined) / lived_s if lived_s > 0 else 1.0
        load.ideal_s = self.ideal.time_s(load, jobs)

    def _count_live(self, now_s: float) -> None:
        self.live_s += (len(self.waiting) + len(self.running)) * (now_s - self._counted_s)
        self._counted_s = now_s
