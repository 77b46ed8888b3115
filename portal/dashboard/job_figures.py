"""A job's plots from what its nodes measured: GPU use, cores used against held, memory."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from django.utils import timezone

from portal.cluster.telemetry import batches_between
from portal.dashboard import figures
from portal.dashboard.job_timeline import timeline_range
from portal.jobs.listing import attempts_of
from portal.jobs.states import FINAL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from portal.jobs.models import Attempt, Job

POINTS = 240
GIB_MIB = 1024
Samples = dict[int, list[float]]


def job_figure_make(*, job: Job, name: str) -> dict[str, Any] | None:
    """Return a figure as JSON for Plotly, None when there is none of that name."""
    makers = {"gpu": _gpu, "cores": _cores, "memory": _memory}
    if name not in makers or job.array_size:
        return None
    start, end = timeline_range(job=job)
    step_s = max(1, int((end - start).total_seconds() / POINTS))
    axis = {"start": start.isoformat(), "end": end.isoformat()}
    axis["now"] = None if job.state in FINAL else timezone.now().isoformat()
    attempts = [attempt for attempt in attempts_of(job) if attempt.started_at]
    return makers[name](job, attempts, step_s, axis)


def _batches(attempt: Attempt) -> Iterator[tuple[int, dict[str, Any]]]:
    nodes = [part.node_id for part in attempt.allocations.all()]
    return batches_between(node_ids=nodes, since=attempt.started_at, until=attempt.ended_at or timezone.now())


def _samples(
    attempt: Attempt, batch: dict[str, Any], values: list[float | None], step_s: int
) -> Iterator[tuple[int, float]]:
    """Yield (slot, value) of a series within the attempt's time."""
    first = attempt.started_at.timestamp()
    last = (attempt.ended_at or timezone.now()).timestamp()
    for position, value in enumerate(values):
        at = batch["start"] + position * batch["period_s"]
        if value is not None and first <= at <= last:
            yield int(at // step_s * step_s), value


def _gpu(job: Job, attempts: list[Attempt], step_s: int, axis: dict[str, Any]) -> dict[str, Any]:
    slots: Samples = defaultdict(list)
    for attempt in attempts:
        held = {
            part.node_id: {str(row.gpu.index) for row in part.gpu_allocations.all()}
            for part in attempt.allocations.all()
        }
        for node_id, batch in _batches(attempt):
            for index, series in (batch.get("gpus") or {}).items():
                if index in held.get(node_id, ()):
                    for slot, value in _samples(attempt, batch, series.get("utilisation") or [], step_s):
                        slots[slot].append(value)
    rows = [(_iso(slot), sum(v) / len(v), min(v), max(v)) for slot, v in sorted(slots.items())]
    return figures.gpu_use(_gapped(rows, step_s, 4), **axis)


def _own(attempts: list[Attempt], measure: str, step_s: int) -> list[tuple[str, float]]:
    """Return (time, sum over the job's parts) of what its own processes used: the mean of each slot, node by node."""
    slots: dict[int, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for attempt in attempts:
        for node_id, batch in _batches(attempt):
            series = (batch.get("attempts") or {}).get(attempt.key, {}).get(measure) or []
            for slot, value in _samples(attempt, batch, series, step_s):
                slots[slot][node_id].append(value)
    return [(_iso(slot), sum(sum(v) / len(v) for v in by.values())) for slot, by in sorted(slots.items())]


def _cores(job: Job, attempts: list[Attempt], step_s: int, axis: dict[str, Any]) -> dict[str, Any]:
    held: list[tuple[str, float | None]] = []
    for attempt in reversed(attempts):
        end = attempt.ended_at or timezone.now()
        held += [
            (attempt.started_at.isoformat(), attempt.cores),
            (end.isoformat(), attempt.cores),
            (end.isoformat(), None),
        ]
    return figures.cores(_gapped(_own(attempts, "cpu_cores", step_s), step_s, 2), held, **axis)


def _memory(job: Job, attempts: list[Attempt], step_s: int, axis: dict[str, Any]) -> dict[str, Any]:
    used = [(at, mib / GIB_MIB) for at, mib in _own(attempts, "memory_mib", step_s)]
    limit = job.memory_mib / GIB_MIB if job.memory_mib else None
    return figures.memory(_gapped(used, step_s, 2), limit, **axis)


def _gapped(rows: list[Any], step_s: int, width: int) -> list[Any]:
    """Put an empty row where nothing was measured for a while: a line across a gap would be invented."""
    out: list[Any] = []
    for row in rows:
        if out and _unix(row[0]) - _unix(out[-1][0]) > max(3 * step_s, 15):
            out.append((_iso(int(_unix(out[-1][0])) + step_s), *([None] * (width - 1))))
        out.append(row)
    return out


def _iso(unix: int) -> str:
    return datetime.fromtimestamp(unix, UTC).isoformat()


def _unix(iso: str) -> float:
    return datetime.fromisoformat(iso).timestamp()
