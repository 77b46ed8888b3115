"""How far policies are from a scheduler that knows everything and places freely: rows beside theirs, and their distance.

What these schedules are, and that they are no proven bound: `research.simulator.clairvoyant`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from portal.pages.laboratory.run.parallel import Task

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from portal.pages.laboratory.run.parallel import Tell
    from scheduler.simulator.world.truth import TracedJob, World

ROWS = {"clairvoyant, least work first": "least-work", "clairvoyant, latency ratio": "latency-ratio"}
"""Row of a table -> order."""

LEAST = next(iter(ROWS))
OVER = "JCT over the least"
"""The column: mean JCT over that of the first row."""

NOTE = (
    "Clairvoyant: all lengths and speeds known, each GPU type one pool, stopping and moving free; no proven bound, but what "
    "knowledge and free placement would give."
)


@dataclass(frozen=True, slots=True)
class Clairvoyance:
    """One of the schedules for one seed, as a task. `prepare`: as a `Scenario`'s."""

    prepare: Callable[[int], tuple[Sequence[TracedJob], World]]
    seed: int
    row: str

    def __call__(self, tell: Tell) -> dict[str, Any]:
        from research.simulator.clairvoyant import clairvoyant

        jobs, world = self.prepare(self.seed)
        return clairvoyant(jobs, world, ROWS[self.row])

    def task(self) -> Task:
        return Task(f"{self.row} seed {self.seed}", self)


def over(figures: Mapping[str, Any], least: Mapping[str, Any]) -> float | None:
    """Return a policy's mean JCT divided by the least one."""
    own, its = figures.get("mean_jct_h"), least.get("mean_jct_h")
    return own / its if own and its else None
