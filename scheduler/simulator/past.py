"""The simulated service's memory of ended jobs, as in the portal's snapshot (algorithms.md sections 3 and 4).

Run times of the latest completed jobs, by which lengths are known; waits and ages of the jobs that ended in the
last hours, for RAQLR; and the most GPUs that large jobs held plus queued at one time in the last week, for the arrays.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, cast

from scheduler.estimator.record import Ran, Record
from scheduler.fairness.arrays import LARGE_FROM_GPUS, PastJob, peak_gpus
from scheduler.model import ArrayHistory, Ended

if TYPE_CHECKING:
    from scheduler.simulator.load import Load

ARRAY_HISTORY_S = 7 * 86_400.0


class Past:
    def __init__(self, raqlr_hours: float) -> None:
        self._horizon_s = raqlr_hours * 3600.0
        self._ended: deque[Ended] = deque()
        self._live_gpu_jobs, self._gpu_job_ended_s = 0, -math.inf
        self._large: dict[int, Load] = {}  # jobs of the large array that are live or ended in the last week
        self._record = Record()
        self.history = self._record.history
        self._largest_tuned: dict[int, dict[str | None, int]] = {}  # owner -> category -> cores a GPU
        self._tuned: deque[tuple[float, int]] = deque()  # when, cores a GPU: of the last week

    def arrived(self, load: Load) -> None:
        self._live_gpu_jobs += load.traced.job.requirement[0] > 0
        if load.traced.job.requirement[0] >= LARGE_FROM_GPUS:
            self._large[load.id] = load

    def ended(self, load: Load, now_s: float) -> None:
        """Note that a job ended; its `ran_s` and waiting are final."""
        if load.traced.job.requirement[0] > 0:
            self._live_gpu_jobs, self._gpu_job_ended_s = self._live_gpu_jobs - 1, now_s
        if load.age_s is not None and load.age_s > 0:
            self._ended.append(Ended(now_s, load.waited_s, load.age_s))
        self._remember(load, completed=load.state == "COMPLETED")

    def _remember(self, load: Load, *, completed: bool) -> None:
        job = load.traced.job
        if not completed and not load.ran_s > (job.expected_duration_s or math.inf):
            return
        owner = job.tenant if job.owner is None else job.owner
        common = (owner, job.tenant, job.category, job.model_label, job.min_gpus)
        self._record.learn(Ran(load.ran_s, job.expected_duration_s, *common, completed, job.limit_s))

    def tuned(self, load: Load, now_s: float) -> None:
        """Note the optimum of a job's cores that was found."""
        job = load.traced.job
        assert load.cores is not None
        own = self._largest_tuned.setdefault(job.tenant if job.owner is None else job.owner, {})
        own[job.category] = max(load.cores, own.get(job.category, 0))
        self._tuned.append((now_s, load.cores))

    def tuned_cores(self, owner: int) -> Mapping[str | None, int]:
        """The owner's largest tuned number by category: where the search starts (section 8)."""
        return self._largest_tuned.get(owner, {})

    def recent(self, now_s: float) -> tuple[Ended, ...]:
        """Those of the last `raqlr_hours`."""
        while self._ended and self._ended[0].ended_s <= now_s - self._horizon_s:
            self._ended.popleft()
        return tuple(self._ended)

    def arrays(self, now_s: float) -> ArrayHistory:
        """The history that divides the arrays from now on. It is asked for once in a round, so that no border moves within one.

        It is computed when a planning first reads it, and a policy without arrays never does.
        """
        return cast("ArrayHistory", _LaterHistory(self, now_s))

    def tuned_cores_since(self, since_s: float) -> tuple[int, ...]:
        """In order, because each planning takes a percentile of them."""
        while self._tuned and self._tuned[0][0] < since_s:
            self._tuned.popleft()
        return tuple(sorted(cores for _, cores in self._tuned))

    def large_gpus_peak(self, now_s: float) -> int | None:
        """The most GPUs that jobs of the large array held plus queued at one time in the last week; None: no GPU jobs."""
        if not self._live_gpu_jobs and self._gpu_job_ended_s < now_s - ARRAY_HISTORY_S:
            return None
        gone = [key for key, load in self._large.items() if (load.ended_s or now_s) < now_s - ARRAY_HISTORY_S]
        for key in gone:
            del self._large[key]
        return peak_gpus(
            PastJob(load.traced.job.submitted_s, load.ended_s, load.traced.job.min_gpus)
            for load in self._large.values()
        )


class _LaterHistory:
    """An `ArrayHistory` that reads the past when it is first looked at."""

    def __init__(self, past: Past, now_s: float) -> None:
        self._past, self._now_s = past, now_s

    @cached_property
    def tuned_cores_per_gpu(self) -> tuple[int, ...]:
        return self._past.tuned_cores_since(self._now_s - ARRAY_HISTORY_S)

    @cached_property
    def large_gpus_peak(self) -> int | None:
        return self._past.large_gpus_peak(self._now_s)
