"""Core tuning (algorithms.md section 8) on measured curves: CODA's one-core rule and the faster search.

`synergy/cpu_mem_profiles.json` holds the relative speed of 33 classes (a model on so many GPUs) by cores a GPU, at 1, 2
... 24 of them and several sizes of memory. A class is taken at its best memory, between measured counts the speed is
interpolated, and counts without a speed are more than its node has. Utilisation moves as the speed does (CODA V-B), so
the searches are shown the speed over the class's best. They start where section 8 starts a job of which nothing is known
but its category; every class is run once, there is no noise and no seed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from portal.pages.laboratory.output.tables import Table
from research.experiments.base import Experiment, ExperimentError, Figure, Result
from scheduler.estimator.cores import start_cores
from scheduler.estimator.tuner import advance, begin

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from research.experiments.base import Options

FILE = "cpu_mem_profiles.json"

CATEGORIES = {
    **dict.fromkeys(("alexnet", "res18", "res50", "mobilenet", "shufflenet", "vae"), "cv"),
    **dict.fromkeys(("bert", "gnmt", "lstm", "transformer"), "nlp"),
    **dict.fromkeys(("deepspeech", "m5"), "speech"),
}

SEARCHES = (
    ("one core at a time", False, False),
    ("one core at a time, use known", False, True),
    ("doubling, then bisection", True, False),
    ("doubling, then bisection, use known", True, True),
)
"""Name, whether fast, whether it is told the CPU use (as the service is)."""


@dataclass(frozen=True, slots=True)
class Curve:
    """A class: speed relative to its best at 1, 2 ... cores a GPU."""

    name: str
    category: str | None
    speeds: tuple[float, ...]

    @property
    def most(self) -> int:
        return len(self.speeds)

    @property
    def optimum(self) -> int:
        """Return the fewest cores with the best speed."""
        return self.speeds.index(max(self.speeds)) + 1

    def used(self, cores: int) -> float:
        """Return how many of so many cores are busy: the fewest that are as fast.

        An upper bound: part of a core may idle.
        """
        return float(next(each for each in range(1, cores + 1) if self.at(each) >= self.at(cores)))

    def at(self, cores: int) -> float:
        return self.speeds[cores - 1]


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found for a class."""

    steps: int
    cores_off: int
    relative_speed: float
    too_long: bool  # whether some number more than one above the optimum was held for longer than two steps in all


def curves(path: Path) -> list[Curve]:
    """Return the file's classes, by name. Raises ExperimentError that says which part cannot be read."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ExperimentError(f"{path}: {error}") from error
    try:
        counts = [int(each) for each in document["cpu_index_per_gpu"]]
        models = sorted(document["models"].items())
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ExperimentError(
            f"{path}: cpu_index_per_gpu and models are needed, as Synergy has them ({error!r})."
        ) from None
    return [_curve(path, name, model, counts) for name, model in models]


def _curve(path: Path, name: str, model: Any, counts: Sequence[int]) -> Curve:
    try:
        measured = [max(float(each) for each in row) for row in model["tput"]]
        known = [(cores, speed) for cores, speed in zip(counts, measured, strict=True) if speed > 0]
    except (KeyError, TypeError, ValueError) as error:
        raise ExperimentError(
            f"{path}, model {name}: tput must hold a row of numbers for each core count ({error})."
        ) from None
    if not known or known[0][0] != 1:
        raise ExperimentError(f"{path}, model {name}: no speed is given at one core a GPU.")
    best = max(speed for _, speed in known)
    speeds = tuple(_between(known, cores) / best for cores in range(1, known[-1][0] + 1))
    return Curve(name, CATEGORIES.get(name.rsplit("_", 1)[0]), speeds)


def _between(known: Sequence[tuple[int, float]], cores: int) -> float:
    low = max(each for each in known if each[0] <= cores)
    high = min(each for each in known if each[0] >= cores)
    if low == high:
        return low[1]
    return low[1] + (high[1] - low[1]) * (cores - low[0]) / (high[0] - low[0])


def search(curve: Curve, *, fast: bool, told: bool) -> Found:
    """Tune as for a tenant's first job of the class's category; `told`: its CPU use is known."""
    tuning = begin(start_cores(category=curve.category, tuned={}), curve.most, fast=fast)
    above = 0
    while not tuning.is_done:
        above += tuning.cores > curve.optimum + 1
        tuning = advance(tuning, curve.at(tuning.cores), used=curve.used(tuning.cores) if told else None)
    return Found(tuning.steps, abs(tuning.best - curve.optimum), curve.at(tuning.best), above > 2)


def run(options: Options) -> Result:
    """Both searches on every class. `options.data`: the folder that holds synergy/. In JSON the faster one's stand alone, too."""
    classes = curves(options.folder("synergy") / FILE)
    found = {name: [search(curve, fast=fast, told=told) for curve in classes] for name, fast, told in SEARCHES}
    figures = {name: _figures(results) for name, results in found.items()}
    blind_one, one, blind_fast, fast = (figures[name] for name, *_ in SEARCHES)
    rows: list[tuple[object, ...]] = [
        (
            name,
            Figure(figures[name]["mean_steps"], 5.0 if is_fast else 5.5),
            figures[name]["max_steps"],
            figures[name]["optima_found"],
            *_ends(figures[name]),
        )
        for name, is_fast, _ in SEARCHES
    ]
    columns = (
        "search",
        "mean steps",
        "most steps",
        "optima",
        "cores off, most",
        "speed over the best, least",
        "held too long",
    )
    note = (
        f"{len(classes)} classes. In brackets what is expected: at most 5.5 steps on average, every optimum found; of the faster "
        "search at most 5, 8 at most. Held too long: classes with more than one core "
        "above the optimum for more than two steps in all."
    )
    tables = (Table("Core tuning", columns, rows, note), _by_class(classes, found))
    return Result(
        "cores", tables, {**fast, "one_core": one, "fast": fast, "blind": {"one_core": blind_one, "fast": blind_fast}}
    )


def _by_class(classes: Sequence[Curve], found: Mapping[str, Sequence[Found]]) -> Table:
    names = [name for name, *_ in SEARCHES]
    rows = [
        (
            curve.name,
            curve.optimum,
            *(f"{found[name][n].steps} steps, {found[name][n].cores_off} off" for name in names),
        )
        for n, curve in enumerate(classes)
    ]
    return Table("By class", ("class", "optimum", *names), rows)


def _ends(figures: dict[str, Any]) -> tuple[object, ...]:
    return figures["max_cores_off"], figures["min_relative_speed"], figures["held_too_long"]


def _figures(results: Sequence[Found]) -> dict[str, Any]:
    return {
        "classes": len(results),
        "mean_steps": sum(each.steps for each in results) / len(results),
        "max_steps": max(each.steps for each in results),
        "optima_found": sum(not each.cores_off for each in results),
        "max_cores_off": max(each.cores_off for each in results),
        "held_too_long": sum(each.too_long for each in results),
        "min_relative_speed": min(each.relative_speed for each in results),
    }


EXPERIMENT = Experiment(
    "cores", "core tuning: CODA's one-core rule and the faster search on Synergy's measured curves", run
)
