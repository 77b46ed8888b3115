"""A job's plots from the measures of its nodes: GPU use, cores used against held, memory."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from django.utils import timezone

from portal.cluster.telemetry import MEAN_S, batches_between, rolled_up_between, too_much_in_full
from portal.pages.dashboard.jobs.timeline import timeline_range
from portal.pages.dashboard.parts import lines
from portal.pages.dashboard.parts.formatting import GIB_MIB
from portal.work.jobs.listing import attempts_measured
from portal.work.jobs.states import FINAL

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from portal.work.jobs.models import Attempt, Job

POINTS = 240
Samples = dict[int, list[float]]


def job_figure_make(*, job: Job, name: str) -> dict[str, Any] | None:
    """Return a drawing (see `lines`), None when there is none of that name."""
    makers = {"gpu": _gpu, "cores": _cores, "memory": _memory}
    if name not in makers or job.array_size:
        return None
    start, end = timeline_range(job=job)
    axis: dict[str, Any] = {"span": (start.timestamp(), end.timestamp())}
    axis["now"] = None if job.state in FINAL else timezone.now().timestamp()
    attempts = list(attempts_measured(job))
    step_s = max(1, int((end - start).total_seconds() / POINTS))
    if step_s < MEAN_S and any(_is_coarse(attempt) for attempt in attempts):
        step_s = MEAN_S
    return makers[name](job, attempts, step_s, axis)


def _span(attempt: Attempt) -> tuple[datetime, datetime]:
    return attempt.started_at, attempt.ended_at or timezone.now()


def _nodes(attempt: Attempt) -> list[int]:
    return [part.node_id for part in attempt.allocations.all()]


def _is_coarse(attempt: Attempt) -> bool:
    """Say whether five-minute means are read: nothing finer is stored, or reading it would take too long."""
    (since, until), nodes = _span(attempt), _nodes(attempt)
    return too_much_in_full(nodes=len(nodes), since=since, until=until) or rolled_up_between(
        node_ids=nodes, since=since, until=until
    )


def _batches(attempt: Attempt, step_s: int) -> Iterator[tuple[int, dict[str, Any]]]:
    since, until = _span(attempt)
    return batches_between(node_ids=_nodes(attempt), since=since, until=until, step_s=step_s)


def _samples(
    span: tuple[float, float], batch: dict[str, Any], values: list[float | None], step_s: int, *, shared: bool = False
) -> Iterator[tuple[int, float]]:
    """Yield (slot, value) of a series within the attempt's time, `span` in Unix seconds.

    A mean counts if its five minutes touch that time. For the use of others before and after (`shared`), it counts if they
    lie within it, unless the attempt was too short for that.
    """
    first, last = span
    period_s = batch["period_s"]
    within = shared and period_s >= MEAN_S and last - first >= 2 * period_s
    for position, value in enumerate(values):
        at = batch["start"] + position * period_s
        if value is None or at > last or (at < first if period_s < MEAN_S or within else at + period_s <= first):
            continue
        if not within or at + period_s <= last:
            yield int(at // step_s * step_s), value


def _seconds(attempt: Attempt) -> tuple[float, float]:
    since, until = _span(attempt)
    return since.timestamp(), until.timestamp()


def _gpu(job: Job, attempts: list[Attempt], step_s: int, axis: dict[str, Any]) -> dict[str, Any]:
    slots: dict[str, Samples] = {name: defaultdict(list) for name in ("mean", "low", "high")}
    for attempt in attempts:
        span = _seconds(attempt)
        held = {
            part.node_id: {str(row.gpu.index) for row in part.gpu_allocations.all()}
            for part in attempt.allocations.all()
        }
        for node_id, batch in _batches(attempt, step_s):
            for index, series in (batch.get("gpus") or {}).items():
                if index in held.get(node_id, ()):
                    _add(slots, span, batch, series, step_s)
    low, high = slots["low"], slots["high"]
    rows = [(slot, sum(v) / len(v), min(low[slot]), max(high[slot])) for slot, v in sorted(slots["mean"].items())]
    return lines.gpu_use(_add_gaps(rows, step_s, 4), **axis)


def _add(
    slots: dict[str, Samples], span: tuple[float, float], batch: dict[str, Any], series: dict[str, Any], step_s: int
) -> None:
    """Add a GPU's samples to the slots of mean, low and high: the last two are the samples themselves where these are fine."""
    mean = [*_samples(span, batch, series.get("utilisation") or [], step_s, shared=True)]
    for name in slots:
        own = series.get(f"utilisation.{name}")
        for slot, value in mean if own is None else _samples(span, batch, own, step_s, shared=True):
            slots[name][slot].append(value)


def _own(attempts: list[Attempt], measure: str, step_s: int) -> list[tuple[float, float]]:
    """Return (time, sum over the job's parts) of its own processes' use: the mean of each slot, node by node."""
    slots: dict[int, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for attempt in attempts:
        span = _seconds(attempt)
        for node_id, batch in _batches(attempt, step_s):
            series = (batch.get("attempts") or {}).get(attempt.key, {}).get(measure) or []
            for slot, value in _samples(span, batch, series, step_s):
                slots[slot][node_id].append(value)
    return [(slot, sum(sum(v) / len(v) for v in by.values())) for slot, by in sorted(slots.items())]


def _cores(job: Job, attempts: list[Attempt], step_s: int, axis: dict[str, Any]) -> dict[str, Any]:
    held: list[lines.Row] = []
    for attempt in reversed(attempts):
        end = attempt.ended_at or timezone.now()
        held += [
            (attempt.started_at.timestamp(), attempt.cores),
            (end.timestamp(), attempt.cores),
            (end.timestamp(), None),
        ]
    return lines.cores(_add_gaps(_own(attempts, "cpu_cores", step_s), step_s, 2), held, **axis)


def _memory(job: Job, attempts: list[Attempt], step_s: int, axis: dict[str, Any]) -> dict[str, Any]:
    used = [(at, mib / GIB_MIB) for at, mib in _own(attempts, "memory_mib", step_s)]
    limit = job.memory_mib / GIB_MIB if job.memory_mib else None
    return lines.memory(_add_gaps(used, step_s, 2), limit, **axis)


def _add_gaps(rows: list[Any], step_s: int, width: int) -> list[Any]:
    """Put an empty row where nothing was measured for a while: a line across a gap would be invented."""
    out: list[Any] = []
    for row in rows:
        if out and row[0] - out[-1][0] > max(3 * step_s, 15):
            out.append((out[-1][0] + step_s, *([None] * (width - 1))))
        out.append(row)
    return out
