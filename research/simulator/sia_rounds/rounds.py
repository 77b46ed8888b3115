"""The rounds of Sia's published simulator: jobs live through a minute, then somebody decides who has what."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from scheduler.simulator.world.truth import SimulationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from research.simulator.sia_rounds.job import RoundJob
    from research.simulator.sia_rounds.speeds import Places, Speeds
    from scheduler.simulator.world.profiled import Shape

ROUND_S = 60.0
MOST_ROUNDS = 100_000
"""Ten weeks: by then something is wrong."""


class Decider(Protocol):
    """Decides at each round's end."""

    name: str

    def decide(self, jobs: Sequence[RoundJob], now_s: float) -> Mapping[int, tuple[str, Shape]]:
        """GPU type and shape of each of these jobs that has GPUs from now on."""
        ...


@dataclass(frozen=True, slots=True)
class Moment:
    """The cluster from a round's end on."""

    at_s: float
    live: int
    waiting: int
    gpus: Mapping[str, int]


def simulate(
    jobs: Sequence[RoundJob],
    places: Places,
    speeds: Speeds,
    decider: Decider,
    *,
    progress: Callable[[float], None] | None = None,
) -> list[Moment]:
    """Let the jobs live until all have ended; what became of them stands in them. `progress` is told the part that ended.

    Raises SimulationError when more is given out than there is, or when jobs do not end.
    """
    moments: list[Moment] = []
    for number in range(MOST_ROUNDS):
        from_s, now_s = number * ROUND_S, (number + 1) * ROUND_S
        for job in jobs:
            if job.ended_s is None and job.submitted_s < now_s:
                job.live(from_s, ROUND_S, speeds)
        if all(job.ended_s is not None for job in jobs):
            return moments
        live = [job for job in jobs if job.ended_s is None and job.submitted_s <= now_s]
        if live:
            moments.append(_decided(live, places, speeds, decider, now_s))
        if progress is not None:
            progress(sum(job.ended_s is not None for job in jobs) / len(jobs))
    raise SimulationError(f"jobs did not end within {MOST_ROUNDS} rounds under {decider.name}")


def _decided(live: Sequence[RoundJob], places: Places, speeds: Speeds, decider: Decider, now_s: float) -> Moment:
    given = decider.decide(live, now_s)
    held = Counter[str]()
    for gpu_type, shape in given.values():
        held[gpu_type] += sum(shape)
    for gpu_type, (gpus, nodes) in places.kinds.items():
        if held[gpu_type] > gpus * nodes:
            raise SimulationError(
                f"{decider.name} gives out {held[gpu_type]} GPUs of {gpu_type}; there are {gpus * nodes}"
            )
    for job in live:
        gpu_type, shape = given.get(job.id, ("", ()))
        job.give(gpu_type, shape, now_s, speeds)
    return Moment(now_s, len(live), sum(not job.shape for job in live), dict(held))
