"""One draw of a forecast: the queue simulated forward from the snapshot by the policy's own code, on a virtual clock.

Whenever a job has ended or come, or a re-plan is due, the policy orders the queue and places jobs on idle resources. A placed
job runs for its expected time times a drawn factor; a job that ran before, for the rest of that; no job for longer than its time
limit. Stops are through at once, a resized job starts on its promise and loses its restart cost. Times are exact to a step: near
ones to about a tick, far ones less (`starts.steps`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from scheduler.asking.starts.scene import STEPS_MOST, Scene, age, longest_s
from scheduler.copies import replace
from scheduler.fairness.priorities import Moment, order
from scheduler.fairness.reservation import expected_end_s
from scheduler.model import Chosen, Configuration, Job, Promise, Running, StopOrder
from scheduler.placement.ledger import Ledger
from scheduler.placement.work import Work, taken_as_sound
from scheduler.planning.closing import Closing
from scheduler.replan import participants
from scheduler.replan.promises import settle

if TYPE_CHECKING:
    from scheduler.placement.outcome import Outcome

REPEATS = 5
"""The most plannings at one moment of a draw: stops are through at once, and other jobs get the freed resources."""
COMMON = 0.2
"""The part of the variance of run times that is a draw's own, the same for all its jobs: users of a cluster err together."""


class Draw:
    """`common`: its place in the distribution of run times, a standard normal number. `phase`: in the arrivals', if any."""

    def __init__(self, scene: Scene, common: float, phase: float | None, seed: int, late: Callable[[], bool]) -> None:
        self._scene, self._late, self._common = scene, late, common
        self._rng = np.random.default_rng(seed)
        self.cut = False
        self.got: dict[int, Configuration] = {}  # by job, at its first start
        self._ledger = Ledger(scene.nodes, scene.state.tenants, scene.state.running)
        self._exclusive = [free for free in self._ledger.free.values() if free.node.exclusive_tenant]
        self._running: dict[int, Running] = {}
        self._ends: list[tuple[float, int, int]] = []
        self._starts = count()
        self._attempt: dict[int, int] = {}  # job -> which of the ends is its present attempt's
        self._end_s: dict[int, float] = {}
        self._left_s: dict[int, tuple[float, int]] = {}  # of a stopped job: the seconds left, on how many GPUs
        for live in scene.state.running:
            self._runs(live, self._end_of(live))
        here = [job for job in scene.jobs if job.id not in scene.comes_s]
        self._waiting = {job.id: replace(job) for job in here}
        self._since = {job.id: (scene.now_s, job.wait_s) for job in here}
        self._to_come = scene.to_come(phase)
        self._next = next(self._to_come, None)
        self._replanned_s = scene.state.replanned_s
        self._replan_s = scene.now_s if self._replanned_s is None else self._replanned_s + scene.parameters.replan_s

    def starts(self, horizon_s: float) -> dict[int, float]:
        """Job -> when it starts, until every one that waits now has, the horizon is reached, or time is up."""
        scene = self._scene
        now_s, until_s = scene.now_s, scene.now_s + horizon_s
        found: dict[int, float] = {}
        sought = {job.id for job in scene.jobs}
        replan = self._replan_due(now_s)
        for step in range(STEPS_MOST):
            for number in self._settle(now_s, replan=replan):
                found.setdefault(number, now_s)
            sought -= found.keys()
            if not sought:
                break
            if self._late():
                self.cut = True
                break
            next_s = min(self._ends[0][0] if self._ends else math.inf, self._next[0] if self._next else math.inf)
            next_s = min(next_s, self._replan_s) if scene.resizes else next_s
            if next_s > until_s:
                break
            running = ((self._end_s[job], live.gpus) for job, live in self._running.items())
            step_s = max(scene.parameters.tick_s, longest_s(step, now_s, now_s - scene.now_s, running))
            now_s = max(next_s, now_s + step_s)
            self._pass_to(now_s)
            replan = self._replan_due(now_s)
        return found

    def _replan_due(self, now_s: float) -> bool:
        if not self._scene.resizes or self._replan_s > now_s:
            return False
        self._replan_s = now_s + max(self._scene.parameters.replan_s, self._scene.parameters.tick_s)
        return True

    def _normal(self) -> float:
        return math.sqrt(COMMON) * self._common + math.sqrt(1.0 - COMMON) * float(self._rng.standard_normal())

    def _end_of(self, live: Running) -> float:
        """When a run ends: drawn from the part of its distribution that is left."""
        now_s, normal = self._scene.now_s, self._normal()
        if live.stopping:
            return now_s + self._scene.parameters.restart_cost_s
        if live.profiled is not None:
            return expected_end_s(live, now_s)
        before_s = self._scene.before_s(live.job)
        expected_s = _whole_s(live, now_s, before_s)
        lasted_s = before_s + max(0.0, now_s - live.started_s)
        owner = live.tenant if live.owner is None else live.owner
        ratio = self._scene.run_times.ratio(owner, live.requirement, normal, lasted_s / expected_s)
        lasts_s = min(self._scene.limit_s(live.job), ratio * expected_s - before_s)
        return max(now_s + 1.0, live.started_s + lasts_s)

    def _runs(self, live: Running, end_s: float) -> None:
        number = next(self._starts)
        self._running[live.job], self._attempt[live.job], self._end_s[live.job] = live, number, end_s
        heappush(self._ends, (end_s, number, live.job))

    def _pass_to(self, now_s: float) -> None:
        while self._ends and self._ends[0][0] <= now_s:
            _, number, ended = heappop(self._ends)
            if self._attempt.get(ended) == number:
                self._remove(ended)
        while self._next is not None and self._next[0] <= now_s:
            at_s, job = self._next
            self._waiting[job.id], self._since[job.id] = job, (at_s, 0.0)
            self._next = next(self._to_come, None)
        for free in self._exclusive:
            here = (live for live in self._running.values() if any(p.node == free.node.id for p in live.pieces))
            free.tenants = free.node.only | {live.tenant for live in here}
            self._ledger.note(free.node.id)

    def _remove(self, job: int) -> Running:
        live = self._running.pop(job)
        del self._attempt[job]
        self._ledger.release(live.pieces, live.tenant)
        return live

    def _settle(self, now_s: float, *, replan: bool) -> list[int]:
        """The jobs that start at this moment, stops being through at once."""
        found: list[int] = []
        for _ in range(REPEATS):
            outcome = self._plan(now_s, replan=replan)
            found += [
                self._start(job_id, outcome.draft.chosen[job_id], now_s) for job_id in sorted(outcome.draft.chosen)
            ]
            for order_ in outcome.draft.stops:
                self._stop(order_, now_s)
            for given in outcome.draft.promises:
                if given.job in self._waiting:
                    promise = Promise(given.shares, now_s, given.cause)
                    self._waiting[given.job] = replace(self._waiting[given.job], promise=promise)
            if not outcome.draft.stops:
                break
            replan = False
        return found

    def _plan(self, now_s: float, *, replan: bool) -> Outcome:
        """The policy's outcome at this moment, promises that can be kept first."""
        scene = self._scene
        ledger = self._ledger.copy()
        jobs = self._count_waiting(now_s, ledger)
        moment = Moment(now_s, ledger.gpus_up, len(jobs) + len(self._running))
        priority = scene.policy.priority(scene.parameters)
        live = tuple(self._running.values())
        cost_s = scene.parameters.restart_cost_s
        closing = Closing(scene.nodes, scene.state.history, age, now_s, cost_s)
        tied = [closing.tied(job) for job in jobs]
        settled = settle(
            tied, closing.live(live, taken_as_sound), ledger, scene.estimator, now_s=now_s, restart_cost_s=cost_s
        )
        kept = settled.started.keys() | settled.waiting.keys()
        free = closing.queue([each for each in order(jobs, priority, moment, age) if each.job.id not in kept])
        state = replace(scene.state, running=live, replanned_s=self._replanned_s)
        # The virtual clock stands still while the policy places: the forecast's own limit is between the steps.
        means = (ledger, scene.estimator, scene.parameters, self._rng, lambda: 0.0, 1e9, state, now_s)
        work = Work(free, *means, replan=replan, pays=scene.policy.pays(scene.parameters), tied=closing.tied)
        if replan:
            part = participants.taking_part(live, ledger, scene.parameters, now_s, pays=work.pays)
            taken_up, left_out = participants.gather(
                part, work, rank=lambda own: closing.queue(order(own, priority, moment, age)), check=taken_as_sound
            )
            work = replace(work, participants=taken_up, left_out=left_out)
            self._replanned_s = now_s
        outcome = scene.policy.place(work)
        outcome.draft.chosen = {**settled.started, **outcome.draft.chosen}
        for job_id in sorted(outcome.draft.invalid):
            self._waiting.pop(job_id, None)
        return outcome

    def _count_waiting(self, now_s: float, ledger: Ledger) -> list[Job]:
        """The jobs that wait within their quota, their waiting brought up to date."""
        jobs = [job for job in self._waiting.values() if ledger.over_quota(job) is None]
        for job in jobs:
            # The draw's own copies, which nobody else holds: making new ones at every step would take half of the time.
            since_s, waited_s = self._since[job.id]
            object.__setattr__(job, "wait_s", waited_s + max(0.0, now_s - since_s))
        return jobs

    def _start(self, job_id: int, chosen: Chosen, now_s: float) -> int:
        scene, job = self._scene, self._waiting.pop(job_id)
        self.got.setdefault(job_id, chosen.configuration)
        placement = self._ledger.take(chosen.configuration, job.tenant)
        expected_s, done = scene.expected_s(job, chosen), scene.before_s(job_id) / age(job).age_s
        if job_id in self._left_s:  # it was stopped in this draw
            left_s, gpus = self._left_s.pop(job_id)
            exponent = scene.run_times.exponent
            left_s = left_s * (gpus / max(1, placement.gpus)) ** exponent + scene.parameters.restart_cost_s
            end_s = now_s + left_s
        else:
            ratio = scene.run_times.ratio(owner_of(job), job.requirement, self._normal(), done)
            end_s = now_s + max(1.0, (ratio - done) * expected_s) + (scene.parameters.restart_cost_s if done else 0.0)
        elastic = scene.resizes and job.movable and len(job.requirement) > 1
        live = Running(
            job_id,
            job.tenant,
            placement.pieces,
            now_s,
            job.requirement,
            expected_end_s=now_s + max(0.0, 1.0 - done) * expected_s,
            elastic=elastic,
            movable=elastic,
            description=replace(job, promise=None) if elastic else None,
            restarts=job.restarts,
            owner=job.owner,
        )
        self._runs(live, min(end_s, now_s + scene.limit_s(job_id)))
        return job_id

    def _stop(self, ordered: StopOrder, now_s: float) -> None:
        live = self._running.get(ordered.job)
        if live is None or live.description is None:
            return
        self._remove(ordered.job)
        self._left_s[ordered.job] = (max(1.0, self._end_s[ordered.job] - now_s), live.gpus)
        self._waiting[ordered.job] = replace(live.description, promise=None, restarts=live.restarts + 1)
        self._since[ordered.job] = (now_s, live.description.wait_s)


def _whole_s(live: Running, now_s: float, before_s: float) -> float:
    """The expected time of its whole run: the present attempt and earlier ones. Past that, its age."""
    end_s = expected_end_s(live, now_s) if live.expected_end_s is None else live.expected_end_s
    job = live.description
    if before_s and end_s <= live.started_s and job is not None and job.age_s is not None:
        return max(1.0, min(before_s, job.age_s))
    return max(1.0, end_s - live.started_s + before_s)


def owner_of(job: Job) -> int:
    return job.tenant if job.owner is None else job.owner
