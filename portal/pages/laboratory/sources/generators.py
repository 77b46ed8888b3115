"""Workloads that the laboratory can draw by itself, by name: papers published their statistics and no trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from portal.pages.laboratory.errors import SimulationError
from portal.pages.laboratory.sources.clusters import ClusterFile

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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


MOST_JOBS = 100_000


@dataclass(frozen=True, slots=True)
class GeneratedJobs:
    """A generator's jobs of a seed. `jobs`: how many; None = as the generator has it."""

    form: str
    seed: int = 1
    jobs: int | None = None

    @classmethod
    def of(cls, name: str, seed: int, options: Mapping[str, str]) -> GeneratedJobs:
        """From the command's `name=value` options. SimulationError for one that is not, or cannot be."""
        if unknown := sorted(set(options) - {"jobs"}):
            raise SimulationError("option", f"a generator has no option {unknown[0]!r}; its only option is jobs")
        text = options.get("jobs")
        if text is not None and not (text.isdecimal() and text.isascii()):
            raise SimulationError("option", f"jobs: {text!r} is not a whole number from 1 to {MOST_JOBS}")
        return cls(name, seed, None if text is None else int(text))

    @property
    def name(self) -> str:
        return f"{self.form}, seed {self.seed}"

    def check(self) -> None:
        """SimulationError: no such generator, or a number of jobs that cannot be."""
        if self.form not in GENERATORS:
            names = ", ".join(GENERATORS)
            raise SimulationError("generator", f"there is no generator {self.form!r}; there are {names}")
        if self.jobs is not None and not 1 <= self.jobs <= MOST_JOBS:
            raise SimulationError("option", f"jobs: {self.jobs} is outside 1 to {MOST_JOBS}")

    def cluster(self) -> ClusterFile:
        """The cluster that goes with the jobs."""
        self.check()
        return ClusterFile(GENERATORS[self.form].make(self.seed, 1)[1], (), f"the generator {self.form}'s")

    def read(self, cluster: ClusterFile) -> tuple[list[TracedJob], dict[int, str]]:
        """The jobs in order of arrival, and the tenants' names by number: the cluster's, else their numbers."""
        self.check()
        generator = GENERATORS[self.form]
        jobs = generator.jobs_in(cluster.world, self.seed, self.jobs or generator.default_jobs)
        return jobs, tenant_names(jobs, cluster)


def tenant_names(jobs: Sequence[TracedJob], cluster: ClusterFile | None) -> dict[int, str]:
    """The cluster's names for the tenants of drawn jobs, else their numbers."""
    names = dict(enumerate(cluster.tenants if cluster else (), start=1))
    return {each.job.tenant: names.get(each.job.tenant, f"tenant {each.job.tenant}") for each in jobs}
