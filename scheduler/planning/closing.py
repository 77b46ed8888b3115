"""Nodes that close: a job begins there only if that is worth it (ours; algorithms.md section 5, decision 0271).

A node may be an allocation that ends at a known time, `Node.closes_s`. Its jobs are stopped then. So each waiting job gets the
time until which its nodes must be open, `Job.open_until_s`:

    now + the 80 % quantile of its run time, where ended jobs tell it; else the expected one
    now + the expected run time, of jobs as long as this one ran already, where it can be started anew
    now + `KEPT_RESTARTS` restarts, where it saves checkpoints: it goes on elsewhere, and loses at most a tenth of its time

The first time that holds is enough. Needs are rounded up to eight steps a doubling, so that the classes of nodes stay few.
The rest of a planning asks only whether a node is open for long enough (`placement.feasibility.open_long_enough`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from scheduler.copies import replace
from scheduler.errors import InvalidJob
from scheduler.estimator.lengths import LATE, Length, length_of
from scheduler.fairness.lrf import ran_s_of
from scheduler.model import Queue
from scheduler.replan.participants import KEPT_RESTARTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from scheduler.fairness.lrf import Age
    from scheduler.model import Alike, Job, Node, Ranked, RunHistory, Running

MIDDLE = 0.5
STEPS = 8


def needed_s(job: Job, length: Length, restart_s: float) -> float:
    """How long a node must stay open for the job. `restart_s`: the cost of a restart."""
    ran_s, anew = ran_s_of(job), job.movable and not job.saves
    whole_s = max(ran_s, length.quantile(LATE if length.runs and not anew else MIDDLE, ran_s))
    if not job.saves:
        return whole_s
    return min(whole_s - ran_s or math.inf, KEPT_RESTARTS * restart_s)


def coarse(seconds: float) -> float:
    """The same, rounded up to `STEPS` steps a doubling."""
    part, power = math.frexp(seconds)
    return math.ldexp(math.ceil(part * 2 * STEPS) / (2 * STEPS), power)


class Closing:
    """Ties the jobs of a planning to nodes that stay open for long enough. Where no node closes it changes nothing."""

    def __init__(
        self,
        nodes: Iterable[Node],
        history: RunHistory,
        age: Callable[[Job], Age],
        now_s: float,
        restart_cost_s: float,
    ) -> None:
        ends_s = [node.closes_s for node in nodes if node.closes_s < math.inf]
        self._last_s = max(ends_s, default=None)
        self._first_s = min(ends_s, default=math.inf)
        self._history, self.age, self._now_s, self._restart_cost_s = history, age, now_s, restart_cost_s
        self._longer: dict[float, float] = {}  # by spread, the late quantile over the median
        self._lengths: dict[tuple[object, ...], Length] = {}

    def tied(self, job: Job, age_s: float | None = None) -> Job:
        """The job with the time until which its nodes must be open. `age_s`: its age, where that is at hand."""
        if self._last_s is None:
            return job
        restart_s = self._restart_cost_s if job.restart_s is None else job.restart_s
        need_s = needed_s(job, self._length(job, self.age(job).age_s if age_s is None else age_s), restart_s)
        # Beyond the last end one time is as good as another.
        return replace(job, open_until_s=min(self._now_s + coarse(need_s), self._last_s + 1.0))

    def live(self, running: Sequence[Running], check: Callable[[Job], None]) -> Sequence[Running]:
        """The running jobs, those with a promise tied. `check` raises InvalidJob for a job that cannot be planned."""
        return running if self._last_s is None else [self._tied_live(live, check) for live in running]

    def _tied_live(self, live: Running, check: Callable[[Job], None]) -> Running:
        if (job := live.description) is None or job.promise is None:
            return live
        try:
            check(job)
        except InvalidJob:
            return live
        return replace(live, description=self.tied(job))

    def queue(self, queue: Sequence[Ranked]) -> Sequence[Ranked]:
        """The same queue; its jobs are tied where some node ends too early for them."""
        if self._last_s is None:
            return queue
        tied = [
            each if self._ends_early(each) else replace(each, job=self.tied(each.job, each.age_s)) for each in queue
        ]
        if not isinstance(queue, Queue):
            return tied
        kinds: dict[Alike, int] = {}
        numbers = np.fromiter((kinds.setdefault(each.job.alike, len(kinds)) for each in tied), np.int64, len(tied))
        return Queue(tied, {**queue.columns, "kinds": numbers})

    def _ends_early(self, ranked: Ranked) -> bool:
        """Whether it surely ends before any node does, as most jobs of a long queue."""
        if ranked.job.attained_gpu_s:
            return False
        if (longer := self._longer.get(ranked.spread)) is None:
            longer = self._longer[ranked.spread] = Length(1.0, "", ranked.spread).quantile(LATE)
        return self._now_s + coarse(ranked.age_s * longer) <= self._first_s

    def _length(self, job: Job, age_s: float) -> Length:
        """Its length as known now; of a job that started before, or says its samples, its age."""
        if job.total_samples is not None:
            return Length(age_s, "").within(job.limit_s)
        kin = (job.owner, job.tenant, job.category, job.model_label, job.min_gpus, job.expected_duration_s, job.limit_s)
        if kin not in self._lengths:
            self._lengths[kin] = length_of(job, self._history).deciding
        length = self._lengths[kin]
        return length if job.age_s is None else length._replace(median_s=age_s).within(job.limit_s)
