"""How heavy Hops' jobs at 64 GPUs are, found on the rival `gavel-hops` alone: the paper publishes size classes, not sizes.

One constant, hours of a GTX 1080 Ti to an hour of the classes, is searched by bisection on its logarithm until the median
makespan over the seeds meets the paper's; all else of the generator stays. No policy of ours runs here. What is found is
written into `scheduler/simulator/generators/hops_constants.py` and stays there.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from portal.laboratory.experiments.base import Figure, Result, Table
from portal.laboratory.experiments.hops.setting import COLUMNS, entrants, medians, runs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from portal.laboratory.experiments.base import Options
    from portal.laboratory.experiments.hops.setting import Setting

LOW, HIGH = 0.25, 4.0
"""Where the constant is looked for."""

WITHIN_H = 0.1
"""How near the median makespan must come; the target allows 0.5."""

STEPS = 12
RIVAL = "gavel-hops"
SHOWN = ("makespan_h", "mean_jct_h", "mean_wait_h", "max_lr", "fragments_per_round")


def search(name: str, setting: Setting, target: Mapping[str, float], options: Options) -> Result:
    """Return the search, one row for each step: the constant and the rival's median figures with it."""
    low, high = math.log(LOW), math.log(HIGH)
    steps: list[dict[str, Any]] = []
    for _ in range(STEPS):
        middle = (low + high) / 2
        choices = replace(setting.chosen, class_hour=math.exp(middle))
        found = rival_medians(replace(setting, choices=choices), options)
        steps.append({"class_hour": math.exp(middle), **found})
        options.say(f"class hour {math.exp(middle):.4f}: makespan {found['makespan_h']:.2f} h")
        missing_h = target["makespan_h"] - (found["makespan_h"] or 0.0)
        if abs(missing_h) <= WITHIN_H:
            break
        low, high = (middle, high) if missing_h > 0 else (low, middle)
    rows = [[f"{step['class_hour']:.4f}", *(Figure(step[key], target[key]) for key in SHOWN)] for step in steps]
    note = f"Medians of {options.seeds} seeds of {RIVAL}, in brackets the paper's. The last row's constant is the one to freeze."
    shown = Table(
        f"{name}: calibration on {RIVAL}'s makespan", ["class hour", *(COLUMNS[key] for key in SHOWN)], rows, note
    )
    return Result(name, (shown,), {"rival": RIVAL, "target_makespan_h": target["makespan_h"], "steps": steps})


def rival_medians(setting: Setting, options: Options) -> dict[str, float | None]:
    """Return the rival's figures with this setting."""
    return medians(runs(setting, entrants(RIVAL), options)[RIVAL], SHOWN)
