"""How heavy Hops' jobs at 64 GPUs are, found on two rivals together: the paper publishes size classes, not sizes.

One constant, hours of a GTX 1080 Ti to an hour of the classes; all else of the generator stays. From the frozen one it is
made larger or smaller in steps, first wide ones and then narrow ones, as long as `gavel-hops` and `sia-hops` come nearer to
their rows of the paper (`distance`). No policy of ours runs here. What is found is written into
`scheduler/simulator/generators/hops_models.py` where it is `CLEARLY` nearer, and stays there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from portal.pages.laboratory.output.tables import Table
from research.experiments.base import Figure, Result
from research.experiments.hops.distance import CLEARLY, COLUMNS, ROWS, SHOWN, distance, with_run
from research.experiments.hops.setting import seeds_of
from research.experiments.hops.trials import Trials, Where

if TYPE_CHECKING:
    from collections.abc import Mapping

    from research.experiments.base import Options
    from research.experiments.hops.distance import Row
    from research.experiments.hops.setting import Setting
    from scheduler.simulator.generators.hops_models import Choices

FACTORS = (1.1, 1.03)
"""A wide step and a narrow one."""

STEPS = 8
"""As far as it goes in one direction with one width."""


class _Hours:
    """What was tried, in its order."""

    def __init__(self, setting: Setting, paper: Mapping[str, Row], options: Options) -> None:
        self.where, self.paper, self.options = Where(setting, tuple(seeds_of(options))), paper, options
        self.trials = Trials(options)
        self.steps: list[Choices] = []

    def rows(self, choices: Choices) -> Mapping[str, Row]:
        if choices not in self.steps:
            self.trials.run(self.where, [choices], ROWS)
            self.steps.append(choices)
            self.options.say(f"class hour {choices.class_hour}: {self.distance(choices):.3f}")
        return {rival: self.trials.row(self.where, choices, rival) for rival in ROWS}

    def distance(self, choices: Choices) -> float:
        return distance(self.rows(choices), self.paper)

    def nearest(self, choices: Choices) -> Choices:
        for factor in FACTORS:
            for scale in (factor, 1 / factor):
                for _ in range(STEPS):
                    next_one = replace(choices, class_hour=round(choices.class_hour * scale, 2))
                    if self.distance(next_one) >= self.distance(choices):
                        break
                    choices = next_one
        return choices


def search(name: str, setting: Setting, paper: Mapping[str, Row], options: Options) -> Result:
    """Return the search, one row for each hour tried: the constant and the rivals' median figures with it."""
    hours = _Hours(setting, paper, options)
    frozen = setting.chosen
    hours.rows(frozen)
    nearest = hours.nearest(frozen)
    clear = hours.distance(nearest) < CLEARLY * hours.distance(frozen)
    rows, steps = [], []
    for choices in hours.steps:
        found, apart = hours.rows(choices), hours.distance(choices)
        cells = [Figure(found[rival][key], with_run(paper[rival])[key]) for rival in ROWS for key in SHOWN]
        rows.append([choices.class_hour, f"{apart:.3f}", *cells])
        steps.append({"class_hour": choices.class_hour, "distance": apart, **found})
    note = f"Medians of {options.seeds} seeds, in brackets the paper's. The first row is the frozen hour."
    columns: list[Any] = ["class hour", "distance", *(f"{rival}: {COLUMNS[key]}" for rival in ROWS for key in SHOWN)]
    shown = Table(f"{name}: calibration of the hour on the rows of {' and '.join(ROWS)}", columns, rows, note)
    to_freeze = (nearest if clear else frozen).class_hour
    return Result(
        name, (shown,), {"rivals": ROWS, "steps": steps, "nearest": nearest.class_hour, "to_freeze": to_freeze}
    )
