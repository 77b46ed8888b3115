"""The rules of the simulator that published results for Shockwave's 120 jobs, to compare our engine with it (section 13).

Its results are public (NSDI '23, reproduction package: 32 V100, rounds of 120 s). `MaxMinRounds` is an adapter: Gavel's
max-min fairness as that simulator ran it, on our planning and engine. What had to be matched, all of it read from the
figures and from what is public about that simulator:

- all GPUs count as one server, so that every job runs at the table's speed for one server: here one node of 32 GPUs;
- every job has speed 1 in the LP, so that GPU time is shared equally. Where several answers are optimal, its interior point
  solver takes the middle (`equal_time`);
- fractions are computed again when jobs came or went, but not within 1 000 s of the last time. A job that came since then waits
  for the next time, and the GPUs that its place in the order would get stay idle;
- priorities are fractions over the time received since then, which begins at half a round for every job. Of equal ones the job
  goes first that received less than its due before, then the job that came first;
- a job that did not run in the round before loses 20 s, at its first start too, except in the very first round: here 20 s for
  a restart, and 20 s more work at the first start. These 20 s do not count as received;
- jobs whose batch size grows run as `traces.batch_sizes` says. The GPUs of a job that ends stay idle until the round is over.

Not matched: in that simulator a job that ends within the round of its restart does not lose the 20 s, and whole steps count.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from scheduler.copies import replace
from scheduler.model import Node
from scheduler.policies.policy import Policy
from scheduler.policies.rivals.timeshare.play import Choice, play, size_of
from scheduler.simulator.engine import Engine, simulate
from scheduler.simulator.rivals import parameters_for
from scheduler.simulator.world.truth import Spot, World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from scheduler.model import Clock
    from scheduler.placement.outcome import Outcome
    from scheduler.placement.work import Work
    from scheduler.policies.rivals.timeshare.play import Round
    from scheduler.simulator.records import Run
    from scheduler.simulator.world.truth import TracedJob

ROUND_S = 120.0
RESET_S = 1000.0
LOST_S = 20.0

NEWTON_STEPS, CLOSE = 100, 1e-12

PUBLISHED = {"makespan_s": 33_207.663, "mean_jct_s": 11_274.117}
"""Max-min fairness on 32 V100, as published."""


def simulate_as_published(
    jobs: Iterable[TracedJob],
    gpus: int,
    gpu_type: str,
    *,
    clock: Clock,
    progress: Callable[[float, int], None] | None = None,
) -> Run:
    """The run of these jobs by that simulator's rules, on our engine."""
    node = one_node(gpus, gpu_type)
    world, knobs = World([node], restart_s=LOST_S), parameters_for("gavel", {"replan_s": ROUND_S})
    loaded = _with_first_start(jobs, node)
    policy = Policy("shockwave-max-min", "as Shockwave's simulator ran it", MaxMinRounds().place, replans=True)
    engine = Engine(loaded, world, knobs, seed=0, clock=clock, progress=progress, policy=policy)
    engine.run()
    return engine.result()


def simulate_beside(
    jobs: Iterable[TracedJob],
    gpus: int,
    gpu_type: str,
    policy: str,
    *,
    clock: Clock,
    progress: Callable[[float, int], None] | None = None,
) -> Run:
    """The same jobs on the same GPUs under a policy of ours or a rival's, with the same rounds and restart cost."""
    world = World([one_node(gpus, gpu_type)], restart_s=LOST_S)
    return simulate(jobs, world, parameters_for(policy, {"replan_s": ROUND_S}), seed=0, clock=clock, progress=progress)


def one_node(gpus: int, gpu_type: str) -> Node:
    return Node(1, "all", gpu_type, gpus, tuple(range(gpus)), gpus, tuple(range(gpus)))


def figures(run: Run) -> dict[str, float]:
    """Makespan and mean JCT, s, as they were published: the makespan counts from time 0."""
    ended = [(each.ended_s, each.submitted_s) for each in run.jobs if each.ended_s is not None]
    return {
        "makespan_s": max(ended_s for ended_s, _ in ended),
        "mean_jct_s": sum(ended_s - submitted_s for ended_s, submitted_s in ended) / len(ended),
    }


def _with_first_start(jobs: Iterable[TracedJob], node: Node) -> list[TracedJob]:
    """The jobs with the cost of their first start as work. Jobs of the first round start at no cost."""
    every = list(jobs)
    first_s = min((each.job.submitted_s for each in every), default=0.0)
    left, free = node.gpus_total, set[int]()
    for each in sorted(every, key=lambda one: (size_of(one.job), one.job.id)):
        if each.job.submitted_s == first_s and size_of(each.job) <= left:
            left -= size_of(each.job)
            free.add(each.job.id)
    return [each if each.job.id in free else _with_more(each, node) for each in every]


def _with_more(traced: TracedJob, node: Node) -> TracedJob:
    size = size_of(traced.job)
    rate = traced.law.rate([Spot(node.id, node.gpu_type, size, size)])
    return replace(traced, work=traced.work + LOST_S * rate)


@dataclass(slots=True)
class _Account:
    """What a job has received of its due. `received_s`: since the last reset; it begins at half a round."""

    received_s: float = ROUND_S / 2
    deficit_s: float = 0.0


@dataclass(slots=True)
class MaxMinRounds:
    """How the policy of one run places. It remembers from round to round, which our own policies do not."""

    _accounts: dict[int, _Account] = field(default_factory=dict)
    _fractions: dict[int, float] = field(default_factory=dict)
    _stale: bool = True
    _reset_s: float = 0.0
    _began: bool = False

    def place(self, work: Work) -> Outcome:
        # The first round begins with the first job, not with the first re-plan.
        begins = work.replan or not self._began
        self._began |= bool(work.queue)
        return play(replace(work, replan=begins), self._choose)

    def _choose(self, begins: Round) -> Choice:
        self._settle(begins)
        now_s, order = begins.work.now_s, sorted(begins.jobs)
        if self._stale and (now_s - self._reset_s >= RESET_S or self._reset_s == 0):
            self._reset(begins, now_s)
        (gpu_type,) = begins.nodes
        left, chosen = begins.gpus[gpu_type], dict[int, str]()
        for number in sorted(order, key=self._claim, reverse=True):
            size = size_of(begins.jobs[number].job)
            if size <= left:
                left -= size
                if number in self._fractions:
                    chosen[number] = gpu_type
        return Choice(chosen)

    def _claim(self, number: int) -> tuple[float, float, float]:
        account, fraction = self._accounts[number], self._fractions.get(number, 0.0)
        return fraction / account.received_s, account.deficit_s, fraction

    def _settle(self, begins: Round) -> None:
        """Account for the round that is over."""
        for number in sorted(begins.jobs):
            running = begins.running.get(number)
            if number not in self._accounts:
                self._accounts[number], self._stale = _Account(), True
            elif running is not None:
                first = begins.work.now_s - running.live.started_s <= ROUND_S and running.live.started_s > 0
                self._accounts[number].received_s += ROUND_S - (LOST_S if first else 0.0)
        for number in self._accounts.keys() - begins.jobs.keys():
            del self._accounts[number]
            self._fractions.pop(number, None)
            self._stale = True

    def _reset(self, begins: Round, now_s: float) -> None:
        """Compute the fractions again; the time received begins again for every job."""
        for number, account in self._accounts.items():
            due_s = self._fractions.get(number, 0.0) * (now_s - self._reset_s)
            account.deficit_s += due_s - (account.received_s - ROUND_S / 2)
            account.received_s = ROUND_S / 2
        numbers = sorted(begins.jobs)
        sizes = [size_of(begins.jobs[number].job) for number in numbers]
        self._fractions = dict(zip(numbers, map(float, equal_time(sizes, sum(begins.gpus.values()))), strict=True))
        self._reset_s, self._stale = now_s, False


def equal_time(sizes: Sequence[int], gpus: int) -> np.ndarray:
    """The fraction of its time for each job: max min of size * fraction.

    With more jobs than GPUs there is one answer. With fewer, the objective does not say who gets the GPU time beyond the level.
    That simulator's solver, an interior point method, then answers with the analytic centre of what is optimal.
    """
    level = min(1.0, gpus / len(sizes))
    least = np.array([level / size for size in sizes])
    open_to = least < 1.0
    spare = gpus - float(np.dot(sizes, np.where(open_to, least, 1.0)))
    if spare <= 1e-9 or not open_to.any():
        return least
    weights = np.array(sizes, dtype=float)[open_to]
    answer = np.ones(len(sizes))
    answer[open_to] = least[open_to] + _centre(weights, 1.0 - least[open_to], spare)
    return answer


def _centre(weights: np.ndarray, most: np.ndarray, spare: float) -> np.ndarray:
    """Argmax of sum log x + sum log(most - x) + log(spare - weights x), by Newton's method with halved steps."""
    x = most * min(0.5, 0.5 * spare / float(weights @ most))
    for _ in range(NEWTON_STEPS):
        left = spare - float(weights @ x)
        gradient = 1 / x - 1 / (most - x) - weights / left
        curvature = np.diag(1 / x**2 + 1 / (most - x) ** 2) + np.outer(weights, weights) / left**2
        step = np.linalg.solve(curvature, gradient)
        while (x + step <= 0).any() or (x + step >= most).any() or weights @ (x + step) >= spare:
            step /= 2
        x = x + step
        if float(np.abs(step).max()) < CLOSE:
            break
    return x
