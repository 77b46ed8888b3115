"""Hops Table 4: 512 GPUs, 500 jobs at 100 an hour. Fixed on `gavel-hops` alone; `calibrate` looks at two rivals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from research.experiments.base import Experiment, Result
from research.experiments.hops import choices
from research.experiments.hops.setting import (
    OURS,
    RIVALS,
    Setting,
    bounds,
    entrants,
    medians,
    runs,
    table,
)

if TYPE_CHECKING:
    from research.experiments.base import Options

SETTING = Setting()
QUICK = Setting(gpus=192, jobs=188, per_hour=37.5)
"""Three eighths of it in every respect: placed by class like the whole."""

PART = Setting(gpus=64, jobs=63, per_hour=12.5)
"""An eighth: what the calibration searches on."""

PAPER = {
    "hops": {
        "makespan_h": 10.48,
        "mean_jct_h": 2.24,
        "mean_wait_h": 0.87,
        "max_lr": 3.22,
        "fragments_per_round": 0.45,
    },
    "sia-hops": {
        "makespan_h": 12.36,
        "mean_jct_h": 3.79,
        "mean_wait_h": 1.68,
        "max_lr": 78.5,
        "fragments_per_round": 56.0,
    },
    "gavel-hops": {
        "makespan_h": 15.42,
        "mean_jct_h": 4.04,
        "mean_wait_h": 2.24,
        "max_lr": 70.43,
        "fragments_per_round": 18.0,
    },
}
"""Table 4."""


def run(options: Options) -> Result:
    """Compare all policies on the same jobs."""
    setting = QUICK if options.quick else SETTING
    of_seeds = runs(setting, entrants(*OURS, *RIVALS), options)
    found = {name: medians(seeds) for name, seeds in of_seeds.items()}
    bound = {name: medians(seeds) for name, seeds in bounds(setting, options).items()}
    note = f"Medians of {options.seeds} seeds; in brackets the paper's Table 4 and ours over the paper's."
    if options.quick:
        note += (
            " Quick: three eighths of it, 192 GPUs and 188 jobs at 37.5 an hour, so the paper's figures do not apply."
        )
    shown = table(
        "Hops Table 4: 512 GPUs, 500 jobs at 100 an hour", found, {} if options.quick else PAPER, note=note, bound=bound
    )
    return Result("hops-512", (shown,), {"policies": found, "clairvoyant": bound, "seeds": of_seeds, "paper": PAPER})


def calibrate(options: Options) -> Result:
    """Redo the search for what the paper leaves open."""
    return choices.search("hops-512", SETTING, PART, PAPER, options)


EXPERIMENT = Experiment("hops-512", "Hops' Table 4: 512 GPUs, 500 jobs, every policy", run, calibrate)
