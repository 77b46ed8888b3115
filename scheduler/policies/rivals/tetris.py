"""Tetris (Grandl et al., SIGCOMM '14): packing several resources, with a preference for little remaining work.

3.2 *alignment*: a machine is filled by the task, among those whose whole demand fits it, with the largest dot product of
its demand and the machine's idle resources, each in parts of the machine's total. Resources: GPUs, cores, memory.
3.3 *less remaining work first*: p = the sum of its demands times its expected remaining run time; the score is
a - m * (mean a / mean p) * p over the candidates, with m = 1.
3.4 *fairness knob* f: only tasks of the (1 - f) part of the tenants that are furthest below their fair share are looked
at, f = 0.25. If none of them fits, the tasks of the others are looked at, so that nothing stays idle.
The machines are filled one after another in id order, until nothing fits. Remote input (3.2's penalty) and barriers (3.5) do not
exist here.

Where the paper is silent: a job with several sizes may be packed at any of them. A job gets all the cores that it asks for,
unless no node has as many. A job that is larger than any node comes last, spread over nodes as in section 5.
A simulation policy: see `scheduler.simulator.rivals`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from scheduler.errors import InvalidJob
from scheduler.model import Chosen, Configuration, Job, Node, Ranked, Share
from scheduler.placement import configurations, cpu, turn
from scheduler.placement.free_capacity import FreeCapacity, Offer
from scheduler.placement.objective import Objective
from scheduler.placement.outcome import DraftPlan, Obstacles, Outcome, Standings, greedy_figures
from scheduler.policies.drf import pool_shares
from scheduler.policies.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scheduler.fairness.arrays import Shares
    from scheduler.placement.work import Work

FAIRNESS_KNOB = 0.25
REMAINING_WEIGHT = 1.0


class Task(NamedTuple):
    """A waiting job as a candidate for one machine: the configuration, its alignment and its remaining work."""

    ranked: Ranked
    configuration: Configuration
    alignment: float
    work: float


def place(work: Work) -> Outcome:
    draft = DraftPlan()
    waiting = [each for each in work.queue if work.ledger.over_quota(each.job) is None]
    standings = Standings({each.job.id for each in waiting}, window_gpus=work.ledger.gpus_up)
    packing = _Packing(work, draft, pool_shares(work))
    for free in list(work.ledger.free.values()):
        while (taken := packing.fill(free, waiting)) is not None:
            waiting.remove(taken)
        if work.remaining_s <= 0:
            late = Obstacles(out_of_time=frozenset(each.job.id for each in waiting))
            return Outcome(draft, standings, late)
    largest = max(work.ledger.largest.values(), default=0)
    for ranked in waiting:
        if ranked.job.min_gpus > largest and not draft.has(ranked.job.id):
            turn.take_turn(ranked, work, draft)
    return Outcome(draft, standings, solver=greedy_figures(draft))


@dataclass(slots=True)
class _Packing:
    work: Work
    draft: DraftPlan
    shares: tuple[Shares, Shares]

    def fill(self, free: FreeCapacity, waiting: Sequence[Ranked]) -> Ranked | None:
        """Start the best job on this machine; None when none fits."""
        gpus, cores = self.shares
        tenants = {each.job.tenant for each in waiting}
        poorest_first = sorted(tenants, key=lambda each: (max(gpus.of(each), cores.of(each)), each))
        poor = set(poorest_first[: max(1, math.ceil((1 - FAIRNESS_KNOB) * len(poorest_first)))])
        for allowed in (poor, None):
            tasks = self._tasks(free, (each for each in waiting if allowed is None or each.job.tenant in allowed))
            if tasks:
                return self._start(_best(tasks), len(tasks))
        return None

    def _tasks(self, free: FreeCapacity, waiting: Iterable[Ranked]) -> list[Task]:
        found: list[Task] = []
        known: dict[tuple[object, ...], list[Configuration]] = {}
        for ranked in waiting:
            shape = turn.shape(ranked.job)
            if shape not in known:
                known[shape] = self._whole(ranked.job, free)
            left_s = ranked.age_s * (1.0 - min(1.0, max(0.0, ranked.job.done_fraction)))
            for each in known[shape]:
                share = each.shares[0]
                own = Configuration(ranked.job.id, each.shares, each.throughput, each.source)
                idle = Share(share.node, len(free.gpus), len(free.cores), free.memory_mib)
                asked = _parts(share, free.node)
                alignment = sum(a * b for a, b in zip(asked, _parts(idle, free.node), strict=True))
                found.append(Task(ranked, own, alignment, sum(asked) * left_s))
        return found

    def _whole(self, job: Job, free: FreeCapacity) -> list[Configuration]:
        """The part of the machine that would serve all of the job's demands, at each of its sizes."""
        offer = Offer(free.node, len(free.gpus), len(free.cores), free.memory_mib, free.tenants)
        if job.is_cpu:
            short = self.work.ledger.quota_shortfall(job.tenant, 0, job.cores) is not None
            return [] if short or not cpu.fits(job, offer) else [cpu.on(job, offer)]
        try:
            made = configurations.generate_on(
                job, [offer], self.work.ledger, self.work.estimator, sigma=self.work.parameters.sigma
            )
        except InvalidJob as error:
            self.draft.invalid[job.id] = error
            return []
        largest = [(node.gpus_total, node.cores_total) for node in self.work.ledger.nodes]
        return [
            each
            for each in made
            if each.cores
            >= min(job.cores * each.gpus, max((cores for gpus, cores in largest if gpus >= each.gpus), default=0))
        ]

    def _start(self, task: Task, candidates: int) -> Ranked:
        job = task.ranked.job
        placement = self.work.ledger.take(task.configuration, job.tenant)
        gain = Objective().gain_of(task.configuration)
        self.draft.chosen[job.id] = Chosen(task.configuration, placement, gain, 1.0, candidates)
        self.draft.candidates[job.id] = (task.configuration,)
        for shares, held in zip(self.shares, (placement.gpus, placement.cores), strict=True):
            shares.add(job.tenant, held)
        return task.ranked


def _best(tasks: Sequence[Task]) -> Task:
    """The highest score; among equals the first in the queue."""
    mean_alignment = sum(each.alignment for each in tasks) / len(tasks)
    mean_work = sum(each.work for each in tasks) / len(tasks)
    epsilon = REMAINING_WEIGHT * mean_alignment / mean_work if mean_work > 0 else 0.0
    return max(tasks, key=lambda each: (each.alignment - epsilon * each.work, -each.ranked.rank))


def _parts(share: Share, node: Node) -> tuple[float, float, float]:
    """GPUs, cores and memory in parts of the machine's."""
    return (
        share.gpus / max(1, node.gpus_total),
        share.cores / max(1, node.cores_total),
        share.memory_mib / max(1, node.memory_total_mib),
    )


POLICY = Policy(
    "tetris",
    "machine by machine the job whose demands align best with what is idle, little remaining work first",
    place,
)
