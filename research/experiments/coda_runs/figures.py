"""What experiment `coda` reads from a run: CODA VI's figures of the measured window.

- active rate while jobs queue (VI-B): of the GPUs, in the mean over the time in which GPU jobs wait; and over the time in
  which one has waited for more than `LONG_S`, for its first start, so that no instant between two plannings counts;
- fragmentation, as VI-C has it: GPUs that are idle for want of cores, over the time in which GPU jobs wait; section 10's
  figure beside it, both kinds, over all the time and over that in which GPU jobs wait;
- utilisation: of the active GPUs, by the part of their full speed at which jobs ran, times `PEAK`, which is set so that
  FIFO has the paper's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from scheduler.simulator.records import JobRecord, PlanningRecord, Run

PEAK = 0.73
LONG_S = 30.0
"""The service's tick."""


@dataclass(frozen=True, slots=True)
class Span:
    """From one planning to the next, within the measured window."""

    from_s: float
    until_s: float
    left: PlanningRecord  # the cluster as it is meanwhile

    @property
    def length_s(self) -> float:
        return self.until_s - self.from_s


def figures_of(run: Run, work: Mapping[int, float], from_s: float, until_s: float) -> dict[str, float | None]:
    """Return all figures of what was submitted and happened in the window. `work`: seconds at full speed, by job."""
    mine = [job for job in run.jobs if job.submitted_s >= from_s]
    gpu = [job.wait_s for job in mine if job.requirement != (0,)]
    cpu = [job.wait_s for job in mine if job.requirement == (0,)]
    return {
        **over_time(run, from_s, until_s),
        "gpu_utilisation": PEAK * _speed([job for job in run.jobs if job.requirement != (0,)], work),
        "gpu_jobs_without_waiting": _part(gpu, lambda wait_s: wait_s <= 1.0),
        "gpu_jobs_over_10_min": _part(gpu, lambda wait_s: wait_s > 600.0),
        "gpu_jobs_over_1_h": _part(gpu, lambda wait_s: wait_s > 3600.0),
        "cpu_jobs_within_10_s": _part(cpu, lambda wait_s: wait_s <= 10.0),
        "cpu_jobs_within_3_min": _part(cpu, lambda wait_s: wait_s <= 180.0),
        "gpu_jobs": float(len(gpu)),
        "cpu_jobs": float(len(cpu)),
        "restarts": float(sum(job.restarts for job in run.jobs)),
        "solve_s": sum(each.solve_s for each in run.plannings),
    }


def over_time(run: Run, from_s: float, until_s: float) -> dict[str, float | None]:
    """Return means over time. When nobody queues, the rate while jobs queue is None and nothing is fragmented."""
    spans = list(_spans(run, from_s, until_s))
    queued = [span for span in spans if span.left.queue_gpu_jobs]
    waited = list(_within(spans, _long_waits(run.jobs, from_s, until_s)))
    whole_s = until_s - from_s
    return {
        "gpu_active_rate_while_queued": _mean(queued, lambda left: left.gpus_allocated, run),
        "gpu_active_rate_while_queued_long": _mean(waited, lambda left: left.gpus_allocated, run),
        "fragmentation": _mean(queued, lambda left: left.fragments_cores, run) or 0.0,
        "fragment_rate_while_queued": _mean(queued, lambda left: left.fragments, run),
        "fragment_rate": _mean(spans, lambda left: left.fragments, run) or 0.0,
        "gpu_active_rate": _mean(spans, lambda left: left.gpus_allocated, run) or 0.0,
        "queued_share": sum(span.length_s for span in queued) / whole_s,
        "queued_long_share": sum(span.length_s for span in waited) / whole_s,
    }


def queued_jobs(run: Run, from_s: float, until_s: float) -> float:
    """Return how many GPU jobs wait, as a mean over the window."""
    return sum(span.length_s * span.left.queue_gpu_jobs for span in _spans(run, from_s, until_s)) / (until_s - from_s)


def _spans(run: Run, from_s: float, until_s: float) -> Iterator[Span]:
    ends = [*(each.at_s for each in run.plannings[1:]), until_s]
    for each, end_s in zip(run.plannings, ends, strict=True):
        span = Span(max(each.at_s, from_s), min(end_s, until_s), each)
        if span.length_s > 0:
            yield span


def _long_waits(jobs: Iterable[JobRecord], from_s: float, until_s: float) -> list[tuple[float, float]]:
    """Return the times at which a GPU job had waited longer than `LONG_S` for its first start, as separate ascending spans."""
    found: list[tuple[float, float]] = []
    for job in sorted(jobs, key=lambda job: job.submitted_s):
        begin_s = max(job.submitted_s + LONG_S, from_s)
        end_s = min(until_s if job.started_s is None else job.started_s, until_s)
        if job.requirement == (0,) or end_s <= begin_s:
            continue
        if found and begin_s <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end_s))
        else:
            found.append((begin_s, end_s))
    return found


def _within(spans: Sequence[Span], times: Sequence[tuple[float, float]]) -> Iterator[Span]:
    """Return the parts of the spans that lie in these times. Both are in ascending order."""
    first = 0
    for from_s, until_s in times:
        while first < len(spans) and spans[first].until_s <= from_s:
            first += 1
        at = first
        while at < len(spans) and spans[at].from_s < until_s:
            yield Span(max(spans[at].from_s, from_s), min(spans[at].until_s, until_s), spans[at].left)
            at += 1


def _mean(spans: Sequence[Span], gpus: Callable[[PlanningRecord], int], run: Run) -> float | None:
    """Return the mean over the spans' time and all GPUs; None when there are none."""
    time_s = sum(span.length_s for span in spans)
    return sum(span.length_s * gpus(span.left) for span in spans) / time_s / run.gpus_total if time_s else None


def _speed(jobs: Sequence[JobRecord], work: Mapping[int, float]) -> float:
    """Return at which part of full speed the GPUs of the completed jobs worked."""
    done = [job for job in jobs if job.state == "COMPLETED"]
    held = sum(job.gpu_s for job in done)
    return sum(work[job.job] * job.requirement[0] for job in done) / held if held else 0.0


def _part(waits: Sequence[float], counts: Callable[[float], bool]) -> float:
    return sum(map(counts, waits)) / len(waits) if waits else 0.0
