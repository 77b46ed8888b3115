"""Generated workloads as a source of jobs: those of the papers that published statistics and no trace."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from portal.simulations.clusters import ClusterFile
from portal.simulations.errors import SimulationError
from scheduler.errors import InvalidParameter
from scheduler.policy import Parameter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scheduler.simulator.truth import TracedJob, World

    Made = tuple[list[TracedJob], World]


@dataclass(frozen=True, slots=True)
class Generator:
    """`make(seed, values)` gives the jobs and the cluster that goes with them; `options` are what may be said."""

    name: str
    meaning: str
    options: tuple[Parameter, ...]
    make: Callable[[int, Mapping[str, Any]], Made]


def _hops(seed: int, values: Mapping[str, Any]) -> Made:
    from scheduler.simulator.generators import hops

    jobs = hops.generate(np.random.default_rng([seed, 1]), jobs=values["jobs"], per_hour=values["per_hour"])
    return jobs, hops.world(np.random.default_rng([seed, 2]), gpus=64 * values["blocks"])


GENERATORS: Mapping[str, Generator] = {
    each.name: each
    for each in (
        Generator(
            "hops",
            "Hops' workload (SoCC '24): elastic training jobs of Table 2's models, arrivals at random, servers of three types",
            (
                Parameter("jobs", "How many jobs.", "jobs", 500, 1, 20_000),
                Parameter("per_hour", "Mean arrivals.", "jobs per hour", 100.0, 0.01, 100_000),
                Parameter("blocks", "The cluster's size: blocks of eight servers.", "times 64 GPUs", 8, 1, 160),
            ),
            _hops,
        ),
    )
}


@dataclass(frozen=True, slots=True)
class GeneratedJobs:
    """A generator's jobs of a seed; a `services.Source`. `options`: name -> text or number."""

    form: str
    seed: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.form}, seed {self.seed}"

    def check(self) -> None:
        """SimulationError: no such generator, or an option that cannot be."""
        self._values()

    def cluster(self) -> ClusterFile:
        """The cluster that goes with the jobs."""
        values = self._values()
        return ClusterFile(GENERATORS[self.form].make(self.seed, values)[1], (), f"the generator {self.form}'s")

    def read(self, cluster: ClusterFile) -> tuple[list[TracedJob], dict[int, str]]:
        """The jobs in order of arrival, and the tenants' names by number: the cluster's, else their numbers."""
        jobs, _ = GENERATORS[self.form].make(self.seed, self._values())
        names = dict(enumerate(cluster.tenants, start=1))
        return jobs, {each.job.tenant: names.get(each.job.tenant, f"tenant {each.job.tenant}") for each in jobs}

    def _values(self) -> dict[str, Any]:
        generator = GENERATORS.get(self.form)
        if generator is None:
            raise SimulationError(
                "generator", f"there is no generator {self.form!r}; there are {', '.join(GENERATORS)}"
            )
        known = {each.name: each for each in generator.options}
        if unknown := sorted(set(self.options) - set(known)):
            raise SimulationError("option", f"{self.form} has no {unknown[0]!r}; there are {', '.join(known)}")
        return {name: _checked(one, self.options.get(name, one.default)) for name, one in known.items()}


def _checked(option: Parameter, value: Any) -> Any:
    try:
        return option.check(float(value) if isinstance(value, str) else value)
    except (InvalidParameter, ValueError) as error:
        detail = error.detail if isinstance(error, InvalidParameter) else f"{value!r} is not a number"
        raise SimulationError("option", f"{option.name}: {detail}") from error
