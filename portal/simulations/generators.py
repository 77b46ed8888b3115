"""The workloads that the laboratory can draw by itself: by name, with how they are drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scheduler.simulator.truth import TracedJob, World


@dataclass(frozen=True, slots=True)
class Generator:
    """`make(seed, jobs)` draws so many jobs and the cluster that belongs to them; the same arguments, the same answer."""

    name: str
    meaning: str
    default_jobs: int
    make: Callable[[int, int], tuple[Sequence[TracedJob], World]]


def _hops(gpus: int) -> Callable[[int, int], tuple[Sequence[TracedJob], World]]:
    def make(seed: int, jobs: int) -> tuple[Sequence[TracedJob], World]:
        import numpy as np

        from scheduler.simulator.generators import hops

        # Generators of their own: the cluster of a seed does not hang on how many jobs are drawn.
        drawn = hops.generate(np.random.default_rng([seed, 1]), jobs=jobs, per_hour=100.0 * gpus / 512)
        return drawn, hops.world(np.random.default_rng([seed, 2]), gpus=gpus)

    return make


GENERATORS = {
    each.name: each
    for each in (
        Generator(
            "hops-64", "Hops' workload on 64 GPUs of several types: elastic training, 12.5 jobs an hour", 50, _hops(64)
        ),
        Generator(
            "hops-512",
            "Hops' workload on 512 GPUs of several types: elastic training, 100 jobs an hour",
            200,
            _hops(512),
        ),
    )
}
