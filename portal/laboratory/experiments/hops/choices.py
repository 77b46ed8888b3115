"""What Hops' paper leaves open of its workload at 512 GPUs, chosen on two rivals together: `gavel-hops` and `sia-hops`.

With each choice of the other constants the class hour is set so that `gavel-hops`' median makespan is the paper's. The other
constants have some plausible values (`VALUES`): one after the other is set to the value with which both rivals come nearest
to the rest of their rows in the paper, the others held; so twice. The distance is the weighted sum of the squared
logarithms of ours over the paper's, over both rows: `gavel-hops` takes each job's median size, `sia-hops` chooses, so that only
both tell what sizes cost. No policy of ours runs here. What is found is written into
`scheduler/simulator/generators/hops_constants.py` and stays there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from portal.laboratory.experiments.base import Figure, Result, Table
from portal.laboratory.experiments.hops.calibration import RIVAL, SHOWN
from portal.laboratory.experiments.hops.setting import COLUMNS, entrants, medians, runs

if TYPE_CHECKING:
    from portal.laboratory.experiments.base import Options
    from portal.laboratory.experiments.hops.setting import Setting
    from scheduler.simulator.generators.hops_constants import Choices

VALUES: Mapping[str, tuple[Any, ...]] = {
    "even_hours": (False, True),
    "between_gbs": (1.5, 4.0, 8.0, 12.0),
    "within_gbs": (3.0, 4.0, 8.0, 12.0),
    "longest_h": (3.0, 4.0, 5.0, 6.0),
    "shortest_h": (1 / 60, 0.05, 0.1, 0.2),
    "small_sizes": (0.0, 0.3, 0.6, 1.0),
    "most_xl": (54.0, 64.0, 80.0),
    "least_s": (0.05, 0.1, 0.2),
}
"""In the order in which they are looked at."""

WITHIN_H = 0.25
HOURS_TRIED = 4
"""How near the median makespan must come, of the 0.5 h allowed, and how many class hours are tried for it."""

ALONE_H = 1.0
"""Of a makespan that does not grow with the work: what the next class hour is reckoned with."""

WEIGHTS = {"makespan_h": 4.0, "mean_jct_h": 1.0, "mean_wait_h": 1.0, "fragments_per_round": 0.25, "max_lr": 0.125}
"""The makespan must be met; the largest ratio is that of a single job, and differs much between seeds."""

PASSES = 2
"""Each of some thirty runs of both rivals for a seed, of which `sia-hops` takes most of a minute of one core."""

ROWS = (RIVAL, "sia-hops")
Figures = Mapping[str, Mapping[str, float | None]]
"""A rival's medians, by rival."""


def distance(found: Figures, paper: Mapping[str, Mapping[str, float]]) -> float:
    """Return the distance between the rivals' medians and their rows in the paper; infinite when a figure is missing."""
    return sum(_row_distance(found[rival], paper[rival]) for rival in ROWS)


def rivals_medians(setting: Setting, options: Options) -> Figures:
    """Return both rivals' figures with this setting."""
    return {name: medians(seeds, SHOWN) for name, seeds in runs(setting, entrants(*ROWS), options).items()}


def _row_distance(found: Mapping[str, float | None], paper: Mapping[str, float]) -> float:
    ours = {key: found.get(key) for key in WEIGHTS}
    if not all(ours.values()):
        return math.inf
    return sum(weight * math.log((ours[key] or 0.0) / paper[key]) ** 2 for key, weight in WEIGHTS.items())


@dataclass(slots=True)
class _Search:
    setting: Setting
    paper: Mapping[str, Mapping[str, float]]
    options: Options
    tried: dict[Choices, Figures] = field(default_factory=dict)

    def distance(self, choices: Choices) -> float:
        return distance(self._figures(choices), self.paper)

    def _figures(self, choices: Choices) -> Figures:
        if choices not in self.tried:
            self.tried[choices] = rivals_medians(replace(self.setting, choices=choices), self.options)
            self.options.say(f"{len(self.tried)}: {distance(self.tried[choices], self.paper):.3f} with {choices}")
        return self.tried[choices]

    def weighed(self, choices: Choices) -> Choices:
        """Return the same choices with the class hour that gives `gavel-hops` the paper's makespan, or comes nearest to it."""
        target_h, hours = self.paper[RIVAL]["makespan_h"], []
        for _ in range(HOURS_TRIED):
            hours.append(choices)
            makespan_h = self._figures(choices)[RIVAL]["makespan_h"] or math.inf
            if abs(makespan_h - target_h) <= WITHIN_H:
                return choices
            scale = (target_h - ALONE_H) / (makespan_h - ALONE_H)
            choices = replace(choices, class_hour=round(choices.class_hour * scale, 2))
        return min(hours, key=self.distance)

    def nearest(self, began: Choices) -> list[Choices]:
        """Return each better choice, from the first to the last."""
        way = [self.weighed(began)]
        for _ in range(PASSES):
            before = way[-1]
            for name, values in VALUES.items():
                others = [replace(way[-1], **{name: value}) for value in values if value != getattr(way[-1], name)]
                better = min(map(self.weighed, others), key=self.distance)
                if self.distance(better) < self.distance(way[-1]):
                    way.append(better)
            if way[-1] == before:
                break
        return way


def search(name: str, setting: Setting, paper: Mapping[str, Mapping[str, float]], options: Options) -> Result:
    """Return the search, one row for each step that came nearer."""
    from scheduler.simulator.generators.hops_constants import Choices

    looking = _Search(setting, paper, options)
    way = looking.nearest(Choices())
    rows: list[list[Any]] = []
    for number, choices in enumerate(way):
        figures = looking.tried[choices]
        last = way[number - 1] if number else None
        changed = "the beginning" if last is None else ", ".join(_changes(last, choices))
        cells = [Figure(figures[rival][key], paper[rival][key]) for rival in ROWS for key in SHOWN]
        rows.append([changed, f"{looking.distance(choices):.3f}", *cells])
    note = (
        f"Medians of {options.seeds} seeds of {' and '.join(ROWS)}, in brackets the paper's. {len(looking.tried)} choices were "
        "tried; the last row's is the one to freeze."
    )
    columns = ["changed", "distance", *(f"{rival}: {COLUMNS[key]}" for rival in ROWS for key in SHOWN)]
    shown = Table(f"{name}: calibration on the rows of {' and '.join(ROWS)}", columns, rows, note)
    paper_rows = {rival: dict(paper[rival]) for rival in ROWS}
    return Result(
        name, (shown,), {"rivals": ROWS, "paper": paper_rows, "steps": [_told(looking, each) for each in way]}
    )


def _changes(before: Choices, after: Choices) -> list[str]:
    return [
        f"{name} {getattr(after, name):.4g}"
        for name in (*VALUES, "class_hour")
        if getattr(after, name) != getattr(before, name)
    ]


def _told(looking: _Search, choices: Choices) -> dict[str, Any]:
    return {
        "choices": {name: getattr(choices, name) for name in (*VALUES, "class_hour")},
        "distance": looking.distance(choices),
        **looking.tried[choices],
    }
