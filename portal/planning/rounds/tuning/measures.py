"""The measures of core tuning: how well attempts kept their GPUs and cores busy, and how fast they say that they were."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from portal.cluster.telemetry import batches_between, batches_recent
from portal.foundation.bulk import among
from portal.planning.estimation.models import AttemptSpeed
from portal.work.jobs.models import Allocation, CoreSearch, GpuAllocation, Slowing

Place = tuple[int, str, str]
"""A node, a group of its measures, and whose they are in it: a GPU's index, or an attempt's key."""

LEAST_SHARE = 0.5
"""The least share of a step that must have been measured."""
RECENT = timedelta(seconds=100)
"""The age at which more than half is not packed yet, at any time of packing (`telemetry_packing.LATE_S`)."""


@dataclass(frozen=True, slots=True)
class Window:
    """One attempt's stretch of time."""

    attempt_id: int
    since: datetime
    until: datetime


def speeds_read(attempt_ids: Iterable[int]) -> dict[int, tuple[float, float]]:
    """Return (samples, seconds) that attempts have reported so far; those without a report are missing. One query."""
    rows = AttemptSpeed.objects.filter(attempt__in=among(attempt_ids), seconds__gt=0)
    return {pk: (samples, seconds) for pk, samples, seconds in rows.values_list("attempt_id", "samples", "seconds")}


def idle_cores_beside(attempt_ids: Iterable[int]) -> set[int]:
    """Return those of the attempts on whose node some core is idle, for any holder. Two queries, without a lock."""
    own = Allocation.objects.filter(attempt__in=among(attempt_ids), released_at=None).order_by()
    places = list(own.values_list("attempt_id", "node_id", "node__cores"))
    parts = Allocation.objects.filter(
        node__in=among({node_id for _, node_id, _ in places}), released_at=None
    ).order_by()
    held: Counter[int] = Counter()
    for node_id, cores in parts.values_list("node_id", "core_ids"):
        held[node_id] += len(cores)
    return {attempt_id for attempt_id, node_id, cores in places if held[node_id] < cores}


def upset_read(searches: Sequence[CoreSearch]) -> set[int]:
    """Return the attempts beside whom, since their mark, a CPU job was slowed or let go: their measurements are worth nothing.

    One query, and one more where there was such a job.
    """
    marks = {search.attempt_id: search.marked_at for search in searches if search.marked_at is not None}
    if not marks:
        return set()
    changed: dict[int, datetime] = {}
    recent = Slowing.objects.filter(changed_at__gte=min(marks.values())).order_by("changed_at")
    changed.update(recent.values_list("node_id", "changed_at"))
    if not changed:
        return set()
    parts = Allocation.objects.filter(attempt__in=among(marks), node__in=among(changed), released_at=None).order_by()
    places = parts.values_list("attempt_id", "node_id")
    return {attempt_id for attempt_id, node_id in places if changed[node_id] >= marks[attempt_id]}


@dataclass(frozen=True, slots=True)
class Use:
    """An attempt's use in its window; None: too little of it was measured."""

    utilisation: float | None = None
    cpu_cores: float | None = None


def uses_read(windows: Sequence[Window]) -> dict[int, Use]:
    """Return of each attempt's window the mean utilisation (0 to 1) of its GPUs and the mean of the cores that its processes
    kept busy. Two queries.

    None where less than `LEAST_SHARE` of the window was measured: a missing figure is never made up.
    """
    if not windows:
        return {}
    rows = GpuAllocation.objects.filter(
        allocation__attempt__in=among(window.attempt_id for window in windows), released_at=None
    )
    gpus: dict[int, list[Place]] = defaultdict(list)
    parts: dict[int, set[Place]] = defaultdict(set)
    names = ("allocation__attempt", "allocation__attempt__key", "gpu__node_id", "gpu__index")
    for attempt_id, key, node_id, index in rows.values_list(*names):
        gpus[attempt_id].append((node_id, "gpus", str(index)))
        parts[attempt_id].add((node_id, "attempts", key))
    nodes = {node_id for held in gpus.values() for node_id, *_ in held}
    since, until = min(window.since for window in windows), max(window.until for window in windows)
    batches: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    read = batches_recent if until - since <= RECENT else batches_between
    for node_id, batch in read(node_ids=nodes, since=since, until=until):
        batches[node_id].append(batch)
    return {
        window.attempt_id: Use(
            _share(_mean(window, gpus[window.attempt_id], "utilisation", batches)),
            _mean(window, sorted(parts[window.attempt_id]), "cpu_cores", batches),
        )
        for window in windows
    }


def _share(percent: float | None) -> float | None:
    return None if percent is None else min(1.0, percent / 100)


def _mean(
    window: Window, places: Sequence[Place], name: str, batches: Mapping[int, Sequence[Mapping[str, Any]]]
) -> float | None:
    first, last = window.since.timestamp(), window.until.timestamp()
    total, measured_s = 0.0, 0.0
    for node_id, group, key in places:
        for batch in batches.get(node_id, ()):
            period_s = batch["period_s"]
            series = (batch.get(group) or {}).get(key, {}).get(name) or ()
            for position, value in enumerate(series):
                if value is not None and first <= batch["start"] + position * period_s < last:
                    total += value * period_s
                    measured_s += period_s
    if not places or measured_s < LEAST_SHARE * (last - first) * len(places):
        return None
    return total / measured_s
