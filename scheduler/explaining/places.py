"""Where a waiting job stands: one numbering for the sentence, the queue page, the job's page, the form and REST.

A *queue* holds the eligible jobs of one array that go on waiting after the planning. First come those of the array's
window, in the order of their turns, then the others by rank. A job's *place* counts from 1. A job has no place if it was placed,
is invalid, or stands aside (held, dependency, or its tenant's quota is used or asked for by its jobs ahead). Tenants read *pool*
for an array, because for them an array is a job array.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scheduler.fairness.arrays import LARGE_FROM_GPUS, Array

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scheduler.model import Ranked
    from scheduler.placement.ledger import Ledger
    from scheduler.placement.outcome import DraftPlan, Standings

UNDIVIDED = "gpu"
"""The queue of all GPU jobs, where the cluster is not divided into pools."""

QUEUES: Mapping[str, str] = {
    Array.GPU_LARGE: "jobs of 4 GPUs and more",
    Array.GPU_SMALL: "jobs of 1 to 3 GPUs",
    Array.CPU: "CPU jobs",
    UNDIVIDED: "GPU jobs",
}
"""The jobs of a queue, as in "the queue for jobs of 1 to 3 GPUs"."""

PLACE_FIGURES = frozenset(
    {"queue", "place", "queue_length", "considered", "started", "window_gpus", "share", "blocked_by"}
)
"""The figures of a job outside its window. Each planning computes them again, so that they are not stored."""


def queue_of(array: str, capacities: Mapping[str, int]) -> str:
    """The queue that an array's jobs stand in. `capacities`: array -> GPUs at which its window closes; {} = no arrays."""
    divided = all(capacities.get(each, 0) for each in (Array.GPU_SMALL, Array.GPU_LARGE))
    return array if divided or array == Array.CPU else UNDIVIDED


def is_strange(queue: str, min_gpus: int) -> bool:
    """Whether a job of this size stands in the other pool's queue, because its own pool could never hold it."""
    large = min_gpus >= LARGE_FROM_GPUS
    return (queue == Array.GPU_LARGE and not large) or (queue == Array.GPU_SMALL and large)


@dataclass(slots=True)
class _Line:
    """One array's queue: its window's waiting jobs as (turn, rank, job), the other waiting jobs, and two counts."""

    inside: list[tuple[int, int, int]] = field(default_factory=list)
    outside: list[int] = field(default_factory=list)
    considered: int = 0
    started: int = 0
    places: dict[int, int] = field(default_factory=dict)


class Places:
    """The places of a planning's queue. To make them costs one walk over the queue."""

    def __init__(self, queue: Sequence[Ranked], draft: DraftPlan, standings: Standings, final: Ledger) -> None:
        self._draft, self._standings, self._final = draft, standings, final
        self._capacities = {each.array: each.capacity for each in standings.windows}
        self._lines: dict[str, _Line] = {}
        for ranked in queue:
            self._add(ranked)
        for line in self._lines.values():
            order = [*(job for _, _, job in sorted(line.inside)), *line.outside]
            line.places = {job: place for place, job in enumerate(order, start=1)}

    def _add(self, ranked: Ranked) -> None:
        draft, standings, job = self._draft, self._standings, ranked.job
        standing = standings.of(ranked)
        line = self._lines.get(standing.array)
        if line is None:
            line = self._lines[standing.array] = _Line()
        inside, placed = job.id in standings.window, job.id in draft.chosen
        line.considered += inside and job.promise is None  # a job with a promise does not stand in the window
        line.started += placed and job.promise is None
        if placed or job.id in draft.invalid or job.id in standings.sated or self._final.over_quota(job) is not None:
            return
        if inside:
            line.inside.append((standing.turn or 0, ranked.rank, job.id))
        else:
            line.outside.append(job.id)

    def of(self, ranked: Ranked) -> dict[str, Any]:
        """`{"queue", "place", "queue_length"}` of a job that goes on waiting."""
        array = self._standings.of(ranked).array
        line = self._lines[array]
        queue = queue_of(array, self._capacities)
        return {"queue": queue, "place": line.places[ranked.job.id], "queue_length": len(line.places)}

    def window(self, ranked: Ranked) -> dict[str, int]:
        """How many jobs of the job's queue the planning considered, and how many of them it started."""
        line = self._lines[self._standings.of(ranked).array]
        return {"considered": line.considered, "started": line.started}
