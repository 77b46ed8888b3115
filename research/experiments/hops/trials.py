"""Runs of the two rivals that a calibration asks for: many at once, none twice, on the whole workload or on a part of it.

On a part `sia-hops` re-plans every 360 s in place of 60: a sixth of its solves, and within 2 % the same mean JCT and wait.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from research.experiments.hops.distance import row_of
from research.experiments.hops.setting import Entrant, Setting
from research.experiments.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from research.experiments.base import Options
    from scheduler.simulator.generators.hops_models import Choices

COARSE_S = 360.0


@dataclass(frozen=True, slots=True)
class Where:
    """A workload and the seeds it is drawn with. `coarse`: with the longer rounds of a part."""

    setting: Setting
    seeds: tuple[int, ...]
    coarse: bool = False


Trial = tuple[Setting, str, int, bool]


@dataclass(slots=True)
class Trials:
    """What was run, by setting, rival and seed."""

    options: Options
    known: dict[Trial, Mapping[str, Any]] = field(default_factory=dict)

    def run(self, where: Where, many: Sequence[Choices], rivals: Sequence[str]) -> None:
        """Run what was not yet, all together, in as many processes as the options say."""
        wanted = dict.fromkeys(each for choices in many for rival in rivals for each in _trials(where, choices, rival))
        new = [each for each in wanted if each not in self.known]
        self.known.update(zip(new, self.options.run_all([_scenario(each).task() for each in new]), strict=True))

    def row(self, where: Where, choices: Choices, rival: str) -> dict[str, float | None]:
        """Return a rival's medians, of what was run."""
        return row_of([self.known[each] for each in _trials(where, choices, rival)])


def _trials(where: Where, choices: Choices, rival: str) -> list[Trial]:
    setting = replace(where.setting, choices=choices)
    return [(setting, rival, seed, where.coarse) for seed in where.seeds]


def _scenario(trial: Trial) -> Scenario:
    from scheduler.simulator.report import figures

    setting, rival, seed, coarse = trial
    knobs = (("replan_s", COARSE_S),) if coarse else ()
    return Scenario(partial(Setting.prepare, setting), Entrant(rival, rival, knobs).parameters(), seed, figures)
