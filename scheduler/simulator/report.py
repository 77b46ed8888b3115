"""The figures of one simulation (algorithms.md section 13), only from its records.

JCT = end - submission, of the jobs that completed or failed. Waiting = time eligible and not running, over all attempts. LR =
waiting over the run time that the scheduler expected at the first start (Hops eq. 8), of the jobs that started. Jobs that never
started are in no mean: `jobs_unstarted` is their number. Jobs that would have come after the run was cut off count only in
`jobs_to_come`.

*FTF rho* (Themis; Hops 4.4) = T_shared / T_ideal of each job that ended: T_shared is its JCT, T_ideal its time on its own
1/N of the cluster, N being the time-weighted mean number of live jobs while it was there; its size there is the largest
it accepts that fits G/N GPUs (else R_1, for that part of the time), its speed the mean over the GPU types it may use.
The engine finds T_ideal (`JobRecord.ideal_s`), for it takes the job's true speed.

*Rates* are time-weighted from the first submission to the end of the run. "While jobs queue" is the time in which some
eligible job that asks for GPUs waits after a planning (CODA's active rate). *Fragments* (section 10) of a round are the
time-weighted mean in it; with rounds of one length the mean over rounds is that over the time.

The same run gives the same figures; wall times stand in the fields that begin with `solve_`.

Quantities that hold from one planning to the next have time-weighted means, and a course in equal steps: a record says how the
planning left the cluster, and that holds until the next record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scheduler.copies import replace

if TYPE_CHECKING:
    from scheduler.simulator.records import JobRecord, PlanningRecord, Run

    Values = NDArray[np.float64]

POINTS = 201


@dataclass(frozen=True, slots=True)
class Steps:
    """Plannings as steps: `length_s[i]` is for how long record i held, 0 where another followed in the same instant."""

    records: Sequence[PlanningRecord]
    at_s: Values
    length_s: Values
    begins_s: float
    ends_s: float

    @classmethod
    def of(cls, run: Run) -> Steps:
        records = run.plannings
        begins_s = min((job.submitted_s for job in run.jobs), default=0.0)
        at_s = np.array([record.at_s for record in records], dtype=np.float64)
        ends_s = max(run.ended_s, begins_s)
        length_s = np.clip(np.diff(np.append(at_s, ends_s)), 0.0, None) if len(records) else np.zeros(0)
        return cls(records, at_s, length_s, begins_s, ends_s)

    def values(self, field: Callable[[PlanningRecord], float]) -> Values:
        return np.array([field(record) for record in self.records], dtype=np.float64)

    def mean(self, values: Values, where: NDArray[np.bool_] | None = None) -> float | None:
        """The mean over all the time (0 before the first planning), or over the part where `where` is true; None for no time."""
        if where is None:
            whole_s = self.ends_s - self.begins_s
            return float(values @ self.length_s) / whole_s if whole_s > 0 else None
        whole_s = float(self.length_s[where].sum())
        return float(values[where] @ self.length_s[where]) / whole_s if whole_s > 0 else None

    def course(self, values: Values, bins: int) -> list[float]:
        """Means over `bins` equal spans of the time; empty for no time."""
        if self.ends_s <= self.begins_s:
            return []
        edges = np.linspace(self.begins_s, self.ends_s, bins + 1)
        # The integral is piecewise linear in time: read it off at the edges.
        at_s = np.concatenate(([self.begins_s], self.at_s, [self.ends_s]))
        area = np.concatenate(([0.0, 0.0], np.cumsum(values * self.length_s)))
        if len(self.at_s) == 0:
            return [0.0] * bins
        return [float(value) for value in np.diff(np.interp(edges, at_s, area)) / np.diff(edges)]


def quantile(values: Sequence[float], part: float) -> float | None:
    """Linear between neighbours; None of nothing."""
    return float(np.quantile(np.asarray(values, dtype=np.float64), part)) if len(values) else None


def mean(values: Sequence[float]) -> float | None:
    return float(np.mean(np.asarray(values, dtype=np.float64))) if len(values) else None


def cdf(values: Sequence[float]) -> list[float]:
    """The quantiles at equal steps from 0 to 1: at most `POINTS`, all values when they are fewer, sorted."""
    if len(values) <= POINTS:
        return sorted(float(value) for value in values)
    return [float(value) for value in np.quantile(np.asarray(values, dtype=np.float64), np.linspace(0, 1, POINTS))]


HOUR_S = 3600.0
LONG_WAIT_S = 600.0
"""CODA counts the GPU jobs that wait longer than this."""

SHORT_WAIT_S = 180.0
"""CODA counts the CPU jobs that wait no longer than this."""

BINS = 240
"""Points of the courses over time."""

SAMPLED = 1000
"""Jobs whose figures are kept one by one."""


def figures(run: Run) -> dict[str, Any]:
    """All figures, JSON-able; None where there was nothing to measure."""
    whole, run = run, _arrived(run)
    return {
        "policy": run.policy,
        "seed": run.seed,
        "jobs_to_come": len(whole.jobs) - len(run.jobs),
        **_jobs(run),
        **_waiting(run),
        **_kinds(run),
        **_cluster(run),
        **_solver(run),
        "tenants": _tenants(run.jobs),
    }


def _arrived(run: Run) -> Run:
    """Without the jobs that would have come after it was cut off."""
    return replace(run, jobs=[job for job in run.jobs if job.submitted_s <= run.ended_s])


def _jobs(run: Run) -> dict[str, Any]:
    jobs = run.jobs
    ended = [job for job in jobs if job.ended_s is not None]
    jct_h = [_jct_s(job) / HOUR_S for job in ended]
    ftf = [_jct_s(job) / job.ideal_s for job in ended if job.ideal_s]
    first_s = min((job.submitted_s for job in jobs), default=0.0)
    last_s = max((job.ended_s for job in ended if job.ended_s is not None), default=None)
    states = [job.state for job in jobs]
    return {
        "jobs": len(jobs),
        "jobs_completed": states.count("COMPLETED"),
        "jobs_failed": states.count("FAILED"),
        "jobs_unfinished": states.count("UNFINISHED"),
        "jobs_invalid": states.count("INVALID"),
        "jobs_unstarted": sum(job.started_s is None for job in jobs),
        "mean_jct_h": mean(jct_h),
        "median_jct_h": quantile(jct_h, 0.5),
        "p99_jct_h": quantile(jct_h, 0.99),
        "makespan_h": None if last_s is None else (last_s - first_s) / HOUR_S,
        "mean_ftf": mean(ftf),
        "max_ftf": max(ftf, default=None),
        "unfair_share": mean([float(rho > 1) for rho in ftf]),
        "restarts": sum(job.restarts for job in jobs),
        "gpu_h": sum(job.gpu_s for job in jobs) / HOUR_S,
    }


def _jct_s(job: JobRecord) -> float:
    assert job.ended_s is not None
    return job.ended_s - job.submitted_s


def latency_ratios(jobs: Sequence[JobRecord]) -> list[float]:
    """LR of the jobs that started."""
    return [job.wait_s / job.age_s for job in jobs if job.age_s]


def _waiting(run: Run) -> dict[str, Any]:
    waits_h = [job.wait_s / HOUR_S for job in run.jobs]
    ratios = latency_ratios(run.jobs)
    return {
        "mean_wait_h": mean(waits_h),
        "median_wait_h": quantile(waits_h, 0.5),
        "p99_wait_h": quantile(waits_h, 0.99),
        "max_wait_h": max(waits_h, default=None),
        "mean_lr": mean(ratios),
        "p99_lr": quantile(ratios, 0.99),
        "max_lr": max(ratios, default=None),
    }


def _kinds(run: Run) -> dict[str, Any]:
    """CODA's figures of GPU and CPU jobs. A job that starts with the first planning after its arrival did not wait."""
    gpu_s = [job.wait_s for job in run.jobs if job.requirement != (0,)]
    cpu_s = [job.wait_s for job in run.jobs if job.requirement == (0,)]
    return {
        "gpu_jobs": len(gpu_s),
        "gpu_jobs_unwaiting_share": mean([float(wait_s <= run.tick_s) for wait_s in gpu_s]),
        "gpu_jobs_over_10min_share": mean([float(wait_s > LONG_WAIT_S) for wait_s in gpu_s]),
        "cpu_jobs": len(cpu_s),
        "cpu_jobs_within_3min_share": mean([float(wait_s <= SHORT_WAIT_S) for wait_s in cpu_s]),
    }


def _cluster(run: Run) -> dict[str, Any]:
    steps = Steps.of(run)
    allocated = steps.values(lambda record: record.gpus_allocated)
    fragments = steps.values(lambda record: record.fragments)
    queued = steps.values(lambda record: record.queue_gpu_jobs) > 0
    per_round = steps.mean(fragments)
    return {
        "gpus_total": run.gpus_total,
        "gpu_active_rate": _over(steps.mean(allocated), run.gpus_total),
        "gpu_active_rate_queued": _over(steps.mean(allocated, queued), run.gpus_total),
        "queued_time_share": _over(float(steps.length_s[queued].sum()), steps.ends_s - steps.begins_s),
        "cpu_active_rate": _over(steps.mean(steps.values(lambda record: record.cores_allocated)), run.cores_total),
        "fragments_per_round": per_round,
        "fragments_kept": steps.mean(steps.values(lambda record: record.fragments_kept)),
        "fragment_rate": _over(per_round, run.gpus_total),
        "fragment_rate_queued": _over(steps.mean(fragments, queued), run.gpus_total),
        "mean_queue": steps.mean(steps.values(lambda record: record.queue_gpu_jobs + record.queue_cpu_jobs)),
        "mean_throughput": steps.mean(steps.values(lambda record: record.rate)),
    }


def _over(value: float | None, whole: float) -> float | None:
    return None if value is None or not whole else value / whole


def _solver(run: Run) -> dict[str, Any]:
    times_s = [record.solve_s for record in run.plannings]
    gaps = [record.gap for record in run.plannings if record.gap is not None]
    return {
        "plannings": len(run.plannings),
        "replans": sum(record.replan for record in run.plannings),
        "stops": sum(record.stopped for record in run.plannings),
        "max_gap": max(gaps, default=None),
        "solve_mean_s": mean(times_s),
        "solve_p50_s": quantile(times_s, 0.5),
        "solve_p95_s": quantile(times_s, 0.95),
        "solve_max_s": max(times_s, default=None),
        "solve_total_s": sum(times_s),
    }


def _tenants(jobs: Sequence[JobRecord]) -> dict[str, dict[str, Any]]:
    by_tenant: dict[int, list[JobRecord]] = {}
    for job in jobs:
        by_tenant.setdefault(job.tenant, []).append(job)
    return {
        str(tenant): {
            "jobs": len(own),
            "gpu_h": sum(job.gpu_s for job in own) / HOUR_S,
            "mean_jct_h": mean([_jct_s(job) / HOUR_S for job in own if job.ended_s is not None]),
            "mean_wait_h": mean([job.wait_s / HOUR_S for job in own]),
            "p99_wait_h": quantile([job.wait_s / HOUR_S for job in own], 0.99),
            "max_lr": max(latency_ratios(own), default=None),
        }
        for tenant, own in sorted(by_tenant.items())
    }


def curves(run: Run) -> dict[str, Any]:
    """The plots: CDFs (values in order, in equal steps of the share), courses over time, fragments a round; and a sample of jobs.

    `hours`: the middle of each span of the courses. `solve_s` is the CDF of the plannings' wall time.
    """
    run = _arrived(run)
    steps = Steps.of(run)
    ended = [job for job in run.jobs if job.ended_s is not None]
    span_h = (steps.ends_s - steps.begins_s) / HOUR_S
    rounds = max(1, min(BINS, round(span_h * HOUR_S / run.replan_s)))
    allocated = [value / max(1, run.gpus_total) for value in _course(steps, "gpus_allocated")]
    return {
        "jobs": sample(run),
        "cdf_jct_h": cdf([_jct_s(job) / HOUR_S for job in ended]),
        "cdf_lr": cdf(latency_ratios(run.jobs)),
        "cdf_wait_h": cdf([job.wait_s / HOUR_S for job in run.jobs]),
        "cdf_ftf": cdf([_jct_s(job) / job.ideal_s for job in ended if job.ideal_s]),
        "hours": [span_h * (n + 0.5) / BINS for n in range(BINS)] if span_h else [],
        "throughput": _course(steps, "rate"),
        "active_rate": allocated,
        "queue_gpu_jobs": _course(steps, "queue_gpu_jobs"),
        "round_hours": [span_h * (n + 0.5) / rounds for n in range(rounds)] if span_h else [],
        "fragments": _course(steps, "fragments", rounds),
        "solve_s": cdf([record.solve_s for record in run.plannings]),
    }


def sample(run: Run) -> list[tuple[float, float | None, float | None]]:
    """Return waiting and run time in hours and LR of at most `SAMPLED` jobs, evenly by submission: the same under each policy."""
    jobs = sorted(run.jobs, key=lambda job: (job.submitted_s, job.job))
    return [
        (
            round(job.wait_s / HOUR_S, 5),
            None if job.ended_s is None else round((_jct_s(job) - job.wait_s) / HOUR_S, 5),
            round(job.wait_s / job.age_s, 5) if job.age_s else None,
        )
        for job in jobs[:: len(jobs) // SAMPLED + 1]
    ]


def _course(steps: Steps, field: str, bins: int = BINS) -> list[float]:
    return steps.course(steps.values(lambda record: getattr(record, field)), bins)
