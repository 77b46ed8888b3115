"""What Hops' paper leaves open of its workload at 512 GPUs, chosen on two rivals together: `gavel-hops` and `sia-hops`.

Whole runs of `sia-hops` are dear, so that the search looks at a part of the workload, an eighth in every respect: jobs, their
arrivals, GPUs. A part's figures are not the whole's. What is looked at is therefore reckoned: a figure on the part, times
what the whole gave over the part with the frozen choices. With each choice of the other constants the class hour is set so
that `gavel-hops`' reckoned makespan is the paper's.

The constants have some plausible values (`VALUES`). From the frozen ones on, one after the other is set to the value with
which both rivals come nearest to their rows (`distance`), the others held; so twice. All values of one constant are tried on
one seed, and the better half of them on both. The nearest few that both seeds saw then run on the whole, the frozen ones
beside them. They are to be frozen only where their distance there is `CLEARLY` below, since seeds scatter. No policy of ours
runs here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, Any

from portal.pages.laboratory.output.tables import Table
from research.experiments.base import Figure, Result
from research.experiments.hops.distance import (
    CLEARLY,
    COLUMNS,
    OF_A_PART,
    ROWS,
    SHOWN,
    WEIGHTS,
    distance,
    with_run,
)
from research.experiments.hops.setting import seeds_of
from research.experiments.hops.trials import Trials, Where

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from research.experiments.base import Options
    from research.experiments.hops.distance import Row
    from research.experiments.hops.setting import Setting
    from scheduler.simulator.generators.hops_models import Choices

VALUES: Mapping[str, tuple[Any, ...]] = {
    "longest_h": (3.0, 4.0, 5.0, 6.0, 8.0, 12.0),
    "within_gbs": (3.0, 4.0, 8.0, 12.0),
    "between_gbs": (1.5, 4.0, 8.0, 12.0),
    "poor_server": (0.5, 0.65, 0.8),
    "most_xl": (54.0, 64.0, 80.0),
    "even_hours": (False, True),
    "small_sizes": (0.0, 0.3, 0.6, 1.0),
    "shortest_h": (1 / 60, 0.05, 0.1, 0.2),
    "least_s": (0.05, 0.1, 0.2),
}
"""In the order in which they are looked at."""

PART_SEEDS = (3, 2)
"""Of the part: the first sees every value. Seed 1 draws so many large jobs that `gavel-hops` takes 21 h there."""

WITHIN_H = 0.25
HOURS_TRIED = 3
"""How near the median makespan must come, of the 0.5 h allowed, and how many class hours are tried for it."""

ALONE_H = 1.0
"""Of a makespan that does not grow with the work: what the next class hour is reckoned with."""

PASSES = 2
FINALISTS = 2

RIVAL = ROWS[0]


@dataclass(slots=True)
class Search:
    """The search on the part, and the check on the whole."""

    whole: Where
    part: Where
    frozen: Choices
    paper: Mapping[str, Row]
    options: Options
    trials: Trials = field(init=False)
    seen: dict[Choices, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.trials = Trials(self.options)

    def begin(self) -> None:
        """Run the frozen choices on the whole and on the part."""
        for where in (self.whole, self.part):
            self.trials.run(where, [self.frozen], ROWS)
        self.seen[self.frozen] = None

    def row(self, where: Where, choices: Choices, rival: str) -> Row:
        """Return a rival's figures on the whole, or reckoned for it."""
        found = self.trials.row(where, choices, rival)
        if where == self.whole:
            return found
        whole = self.trials.row(self.whole, self.frozen, rival)
        part = self.trials.row(where, self.frozen, rival)
        return {key: _scaled(found[key], whole[key], part[key]) for key in found}

    def distance(self, where: Where, choices: Choices) -> float:
        weights = WEIGHTS if where.setting == self.whole.setting else OF_A_PART
        return distance({rival: self.row(where, choices, rival) for rival in ROWS}, self.paper, weights)

    def tried(self, where: Where, many: Sequence[Choices]) -> list[Choices]:
        """Run these, each with the class hour that gives `gavel-hops` the paper's makespan or comes nearest to it."""
        hours = [[choices] for choices in many]
        for _ in range(HOURS_TRIED):
            self.trials.run(where, [each[-1] for each in hours], [RIVAL])
            for each in hours:
                if self._off_h(where, each[-1]) > WITHIN_H and len(each) < HOURS_TRIED:
                    each.append(self._weighed(where, each[-1]))
        best = [min(each, key=lambda choices: self._off_h(where, choices)) for each in hours]
        self.trials.run(where, best, ROWS)
        for choices in best:
            self.options.say(f"{self.distance(where, choices):.3f}, seeds {where.seeds}, with {choices}")
        return best

    def nearest(self) -> list[Choices]:
        """Return each better choice on the part, from the frozen ones to the last."""
        way = [self.frozen]
        for _ in range(PASSES):
            before = way[-1]
            for name, values in VALUES.items():
                self._look(way, name, values)
            if way[-1] == before:
                break
        return way

    def finalists(self) -> list[Choices]:
        """Return the nearest few on the whole, their class hours set there."""
        others = [each for each in self.seen if each != self.frozen]
        others.sort(key=lambda choices: self.distance(self.part, choices))
        return self.tried(self.whole, others[:FINALISTS])

    def _look(self, way: list[Choices], name: str, values: Sequence[Any]) -> None:
        began = way[-1]
        others = [replace(began, **{name: value}) for value in values if value != getattr(began, name)]
        first = replace(self.part, seeds=self.part.seeds[:1])
        self.trials.run(first, [self.frozen], ROWS)
        ranked = sorted(self.tried(first, others), key=lambda choices: self.distance(first, choices))
        found = self.tried(self.part, ranked[: (len(ranked) + 1) // 2])
        self.seen.update(dict.fromkeys(found))
        better = min(found, key=lambda choices: self.distance(self.part, choices))
        if self.distance(self.part, better) < self.distance(self.part, began):
            way.append(better)

    def _off_h(self, where: Where, choices: Choices) -> float:
        return abs(self._makespan_h(where, choices) - self._target_h())

    def _weighed(self, where: Where, choices: Choices) -> Choices:
        scale = (self._target_h() - ALONE_H) / (self._makespan_h(where, choices) - ALONE_H)
        return replace(choices, class_hour=round(choices.class_hour * scale, 2))

    def _makespan_h(self, where: Where, choices: Choices) -> float:
        return self.row(where, choices, RIVAL)["makespan_h"] or inf

    def _target_h(self) -> float:
        return self.paper[RIVAL]["makespan_h"] or inf


def _scaled(found: float | None, whole: float | None, part: float | None) -> float | None:
    return found * whole / part if found is not None and whole and part else None


def search(name: str, setting: Setting, part: Setting, paper: Mapping[str, Row], options: Options) -> Result:
    """Return the search: one row for each step that came nearer on the part, then those on the whole."""
    frozen = setting.chosen
    seeds = tuple(seeds_of(options))
    looking = Search(Where(setting, seeds), Where(part, PART_SEEDS, coarse=True), frozen, paper, options)
    looking.begin()
    way = looking.nearest()
    ends = [frozen, *looking.finalists()]
    nearest = min(ends, key=lambda choices: looking.distance(looking.whole, choices))
    clear = looking.distance(looking.whole, nearest) < CLEARLY * looking.distance(looking.whole, frozen)
    tables = (
        _table(looking, looking.part, way, f"{name}: reckoned from a part, seeds {PART_SEEDS[::-1]}"),
        _table(looking, looking.whole, ends, f"{name}: the nearest on the whole, {len(seeds)} seeds"),
    )
    told = {
        "rivals": ROWS,
        "paper": {rival: with_run(paper[rival]) for rival in ROWS},
        "steps": [_told(looking, looking.part, each) for each in way],
        "whole": [_told(looking, looking.whole, each) for each in ends],
        "to_freeze": _values(nearest if clear else frozen),
        "runs": len(looking.trials.known),
    }
    return Result(name, tables, told)


def _table(looking: Search, where: Where, many: Sequence[Choices], title: str) -> Table:
    rows: list[list[Any]] = []
    for number, choices in enumerate(many):
        since = many[number - 1] if where == looking.part else looking.frozen
        changed = ", ".join(_changes(since, choices)) if number else "as frozen"
        cells = [
            Figure(looking.row(where, choices, rival)[key], with_run(looking.paper[rival])[key])
            for rival in ROWS
            for key in SHOWN
        ]
        rows.append([changed, f"{looking.distance(where, choices):.3f}", *cells])
    columns = ["changed", "distance", *(f"{rival}: {COLUMNS[key]}" for rival in ROWS for key in SHOWN)]
    note = f"Medians; in brackets the paper's. {len(looking.trials.known)} runs, on {len(looking.seen)} choices both seeds."
    return Table(title, columns, rows, note)


def _changes(before: Choices, after: Choices) -> list[str]:
    values, old = _values(after), _values(before)
    return [f"{name} {value:.4g}" for name, value in values.items() if value != old[name]]


def _values(choices: Choices) -> dict[str, Any]:
    return {name: getattr(choices, name) for name in (*VALUES, "class_hour")}


def _told(looking: Search, where: Where, choices: Choices) -> dict[str, Any]:
    rows = {rival: looking.row(where, choices, rival) for rival in ROWS}
    return {"choices": _values(choices), "distance": looking.distance(where, choices), **rows}
