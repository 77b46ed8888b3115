"""The workloads that the laboratory can draw by itself: by name, with how they are drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scheduler.simulator.world.truth import TracedJob, World


@dataclass(frozen=True, slots=True)
class Generator:
    """`make(seed, jobs)` draws this number of jobs and the cluster that belongs to them; the same arguments, the same answer."""

    name: str
    meaning: str
    default_jobs: int
    make: Callable[[int, int], tuple[Sequence[TracedJob], World]]

    def jobs_in(self, world: World, seed: int, jobs: int) -> list[TracedJob]:
        """Draw this number of jobs, as they go in that world, of other GPU types perhaps."""
        from scheduler.simulator.generators import hops
        from scheduler.simulator.world.laws import at_home

        drawn, _ = self.make(seed, jobs)
        return at_home(drawn, world, known=hops.GPU_TYPES, reference=hops.REFERENCE)


def _hops(
    gpus: int, per_hour: float, *, physical: bool = False
) -> Callable[[int, int], tuple[Sequence[TracedJob], World]]:
    """As the experiment of the same name has them."""

    def make(seed: int, jobs: int) -> tuple[Sequence[TracedJob], World]:
        import numpy as np

        from scheduler.simulator.generators import hops

        choices = hops.choices_of(physical=physical)
        # Generators of their own: the cluster of a seed does not hang on how many jobs are drawn.
        drawn = hops.generate(np.random.default_rng([seed, 1]), jobs=jobs, per_hour=per_hour, choices=choices)
        return drawn, hops.world(np.random.default_rng([seed, 2]), gpus=gpus, physical=physical)

    return make


GENERATORS = {
    each.name: each
    for each in (
        Generator(
            "hops-64",
            "Hops' workload on 64 GPUs of several types: elastic training, 10 jobs an hour",
            25,
            _hops(64, 10.0, physical=True),
        ),
        Generator(
            "hops-512",
            "Hops' workload on 512 GPUs of several types: elastic training, 100 jobs an hour",
            200,
            _hops(512, 100.0),
        ),
    )
}
