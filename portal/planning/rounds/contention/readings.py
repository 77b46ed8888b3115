"""A node as the eliminator reads it: its measurements, and its `Watch` in stored form."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any

from portal.cluster.telemetry import batches_recent
from portal.foundation.bulk import among
from portal.work.jobs.models import Allocation, Attempt
from portal.work.jobs.states import AttemptState
from scheduler.contention import Reading, Throttle, Training, Watch

LEAST_SHARE = 0.5
"""The least share of a period that must have been measured."""
HISTORY = timedelta(seconds=300)
"""The time in which a period before the pressure is looked for."""
Batches = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Here:
    """Everything that runs on a node now: its parts of training jobs and of CPU jobs, by attempt."""

    trainings: dict[int, Allocation] = field(default_factory=dict)
    others: dict[int, Allocation] = field(default_factory=dict)

    @property
    def attempts(self) -> dict[int, Attempt]:
        return {pk: part.attempt for pk, part in {**self.trainings, **self.others}.items()}


def here_read(node_ids: Iterable[int]) -> dict[int, Here]:
    """Return everything that runs on these nodes. Profiles are neither: they end by themselves. Two queries."""
    found: dict[int, Here] = {node_id: Here() for node_id in node_ids}
    parts = Allocation.objects.filter(
        node__in=among(found), released_at=None, attempt__kind="run", attempt__state=AttemptState.RUNNING
    )
    for part in parts.select_related("attempt__job").prefetch_related("gpu_allocations__gpu"):
        here = found[part.node_id]
        (here.trainings if part.attempt.gpus else here.others)[part.attempt_id] = part
    return found


def batches_read(node_ids: Iterable[int], since: datetime, until: datetime) -> dict[int, Batches]:
    """Return the batches of telemetry by node, the oldest first. One query."""
    found: dict[int, Batches] = defaultdict(list)
    for node_id, batch in batches_recent(node_ids=node_ids, since=since, until=until):
        found[node_id].append(batch)
    for batches in found.values():
        batches.sort(key=lambda batch: batch["start"])
    return found


@dataclass(frozen=True, slots=True)
class Span:
    """The batches of one node, between two moments (Unix seconds)."""

    batches: Batches
    first: float
    last: float

    def mean(self, group: str, key: str, name: str) -> float | None:
        """Return the mean of a measure; None where less than `LEAST_SHARE` of the span was measured."""
        total, measured_s = 0.0, 0.0
        for _, value, period_s in self._values(group, key, name):
            total += value * period_s
            measured_s += period_s
        return total / measured_s if measured_s >= LEAST_SHARE * (self.last - self.first) else None

    def highest(self, group: str, key: str, name: str) -> float | None:
        return max((value for _, value, _ in self._values(group, key, name)), default=None)

    def _values(self, group: str, key: str, name: str) -> Iterator[tuple[float, float, float]]:
        for batch in self.batches:
            period_s, own = batch["period_s"], batch.get(group) or {}
            if not self.first < batch["start"] + batch["count"] * period_s or batch["start"] >= self.last:
                continue
            series: Sequence[float | None] = (own if group == "host" else own.get(key) or {}).get(name) or ()
            for position, value in enumerate(series):
                at = batch["start"] + position * period_s
                if value is not None and self.first <= at < self.last:
                    yield at, value, period_s


def reading_make(span: Span, here: Here, *, by_cores: bool, known: Iterable[int] = ()) -> Reading | None:
    """Return a node's measurements in a span; None where they are not enough to act on.

    `known`: training jobs that an earlier period knew: without their figures nothing can be said. Of a part whose cores were
    changed meanwhile, and of one that began meanwhile, nothing is said. `by_cores`: a job is held back by its cores, of which it
    keeps one.
    """
    total = span.mean("host", "", "memory_share")
    if total is None:
        return None
    trainings = {}
    for attempt_id, part in here.trainings.items():
        used = _utilisation(span, part)
        if used is not None:
            # Cores that changed in the span equal no number: an order's number is its time.
            cores = 0 if span.first * 1000 < part.cores_sequence else len(part.core_ids)
            trainings[attempt_id] = Training(used, cores)
        elif attempt_id in known:
            return None
    shares = {pk: span.mean("attempts", part.attempt.key, "memory_share") for pk, part in here.others.items()}
    drawn = {pk: (share or 0.0) / 100 for pk, share in shares.items()}
    least = (
        {pk: 1 / (part.attempt.cores_wanted or len(part.core_ids)) for pk, part in here.others.items()}
        if by_cores
        else {}
    )
    return Reading(total / 100, trainings, drawn, least)


def _utilisation(span: Span, part: Allocation) -> float | None:
    started = part.attempt.started_at
    if started is None or started.timestamp() > span.first:
        return None
    used = [
        span.mean("gpus", str(held.gpu.index), "utilisation")
        for held in part.gpu_allocations.all()
        if held.released_at is None
    ]
    known = [value for value in used if value is not None]
    return min(1.0, sum(known) / len(known) / 100) if known and len(known) == len(used) else None


def before_read(
    batches: Batches, here: Here, *, now: datetime, period_s: float, threshold: float
) -> Mapping[int, Training]:
    """Return the training jobs as they were in the last period in which no second was pressed; nothing if there was none."""
    last = now.timestamp()
    while last - period_s > (now - HISTORY).timestamp():
        span = Span(batches, last - period_s, last)
        highest = span.highest("host", "", "memory_share")
        if highest is not None and highest / 100 < threshold:
            reading = reading_make(span, here, by_cores=False)
            return {} if reading is None else reading.trainings
        last -= period_s / 4
    return {}


def watch_dump(watch: Watch) -> dict[str, Any]:
    return {
        "before": {str(job): asdict(each) for job, each in watch.before.items()},
        "throttles": {str(job): asdict(each) for job, each in watch.throttles.items()},
        "harmless": sorted(map(list, watch.harmless)),
    }


def watch_load(state: dict[str, Any]) -> Watch:
    return Watch(
        {int(job): Training(**each) for job, each in state["before"].items()},
        {int(job): Throttle(**each) for job, each in state["throttles"].items()},
        frozenset((training, job) for training, job in state["harmless"]),
    )
