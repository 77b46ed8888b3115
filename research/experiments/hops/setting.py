"""What Hops' experiments (SoCC '24, 4) have in common: the settings, who is compared, medians over seeds, the tables.

Each policy re-plans in its own paper's rounds: Gavel 360 s, Sia 60 s; Hops tells none, so it and Berth take Berth's default.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

from portal.pages.laboratory.output.tables import Table
from research.experiments.base import Figure
from research.experiments.clairvoyance import LEAST, NOTE, OVER, ROWS, Clairvoyance, over
from research.experiments.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from research.experiments.base import Options
    from scheduler.parameters import Parameters
    from scheduler.simulator.generators.hops_models import Choices
    from scheduler.simulator.world.truth import TracedJob, World

OURS = ("berth", "hops")
RIVALS = ("sia-hops", "gavel-hops", "sia", "gavel")

COLUMNS = {
    "makespan_h": "makespan, h",
    "mean_jct_h": "mean JCT, h",
    "mean_wait_h": "mean wait, h",
    "max_lr": "max LR",
    "fragments_per_round": "fragments",
    "max_ftf": "max FTF rho",
    "gpu_active_rate": "active",
    "solve_p95_s": "planning p95, s",
    "median_jct_h": "median JCT, h",
    "p99_jct_h": "99 % JCT, h",
    "mean_lr": "mean LR",
}
"""Every figure that `--json` has of a policy; tables show some."""

SHOWN = tuple(COLUMNS)[:8]


@dataclass(frozen=True, slots=True)
class Setting:
    """A workload and its cluster. `physical`: the paper's ten servers of 4.2. `choices`: other than the frozen ones."""

    gpus: int = 512
    jobs: int = 500
    per_hour: float = 100.0
    physical: bool = False
    choices: Choices | None = None
    tick_s: float = 30.0

    @property
    def chosen(self) -> Choices:
        """Return the values of what the paper leaves open in this setting."""
        from scheduler.simulator.generators import hops

        return self.choices or hops.choices_of(physical=self.physical)

    def prepare(self, seed: int) -> tuple[Sequence[TracedJob], World]:
        """Return the jobs and the cluster of a seed. With the same seed, settings differ in the jobs' sizes only."""
        import numpy as np

        from scheduler.simulator.generators import hops

        choices = self.chosen
        jobs = hops.generate(
            np.random.default_rng([seed, 1]),
            jobs=self.jobs,
            per_hour=self.per_hour,
            choices=choices,
        )
        world = hops.world(np.random.default_rng([seed, 2]), gpus=self.gpus, physical=self.physical, choices=choices)
        return jobs, replace(world, tick_s=self.tick_s)


@dataclass(frozen=True, slots=True)
class Entrant:
    """A policy with its knobs, under the name that the tables give it."""

    name: str
    policy: str
    knobs: tuple[tuple[str, Any], ...] = ()

    def parameters(self) -> Parameters:
        from scheduler.simulator.rivals import parameters_for

        return parameters_for(self.policy, dict(self.knobs))


def entrants(*names: str, **knobs: Any) -> tuple[Entrant, ...]:
    """Return policies under their own names, with the same knobs."""
    return tuple(Entrant(name, name, tuple(knobs.items())) for name in names)


def seeds_of(options: Options) -> range:
    """Return the seeds: 1 to the number asked for."""
    return range(1, options.seeds + 1)


def runs(
    setting: Setting, who: Sequence[Entrant], options: Options, *, until_s: float | None = None
) -> dict[str, list[dict[str, Any]]]:
    """Return the report's figures of each entrant, one for each seed."""
    from scheduler.simulator.report import figures

    scenarios = [
        Scenario(partial(Setting.prepare, setting), each.parameters(), seed, figures, until_s)
        for each in who
        for seed in seeds_of(options)
    ]
    answers = iter(options.run_all([scenario.task() for scenario in scenarios]))
    return {each.name: [next(answers) for _ in seeds_of(options)] for each in who}


def bounds(setting: Setting, options: Options) -> dict[str, list[dict[str, Any]]]:
    """Return the clairvoyant schedules' figures, one for each seed."""
    tasks = [
        Clairvoyance(partial(Setting.prepare, setting), seed, row).task() for row in ROWS for seed in seeds_of(options)
    ]
    answers = iter(options.run_all(tasks))
    return {row: [next(answers) for _ in seeds_of(options)] for row in ROWS}


def medians(of_seeds: Sequence[Mapping[str, Any]], keys: Sequence[str] = tuple(COLUMNS)) -> dict[str, float | None]:
    """Return the median of each figure over the seeds that have it."""
    found: dict[str, float | None] = {}
    for key in keys:
        known = [each[key] for each in of_seeds if each.get(key) is not None]
        found[key] = float(median(known)) if known else None
    return found


def table(
    title: str,
    of_policies: Mapping[str, Mapping[str, float | None]],
    paper: Mapping[str, Mapping[str, float]],
    *,
    keys: Sequence[str] = SHOWN,
    note: str = "",
    bound: Mapping[str, Mapping[str, float | None]] | None = None,
) -> Table:
    """A row a policy: ours, and where the paper has one its figure and the ratio. `bound`: the clairvoyant schedules' rows."""
    rows: list[list[object]] = [
        [name, *(Figure(figures[key], paper.get(name, {}).get(key)) for key in keys)]
        for name, figures in of_policies.items()
    ]
    columns = ["policy", *(COLUMNS[key] for key in keys)]
    if bound is None:
        return Table(title, columns, rows, note)
    rows += [[name, *(Figure(figures.get(key)) for key in keys)] for name, figures in bound.items()]
    for row, figures in zip(rows, [*of_policies.values(), *bound.values()], strict=True):
        row.append(Figure(over(figures, bound[LEAST])))
    return Table(title, [*columns, OVER], rows, f"{note} {NOTE}")
