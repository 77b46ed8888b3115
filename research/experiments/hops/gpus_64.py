"""Hops Table 3 and Fig. 10: the physical cluster's 64 GPUs in ten servers, 25 jobs within 2.5 hours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from research.experiments.base import Experiment, Result
from research.experiments.hops import calibration
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

SETTING = Setting(gpus=64, jobs=25, per_hour=10.0, physical=True)

PAPER = {
    "hops": {
        "makespan_h": 9.51,
        "mean_jct_h": 3.2,
        "mean_wait_h": 0.95,
        "max_lr": 0.37,
        "fragments_per_round": 0.15,
    },
    "sia-hops": {
        "makespan_h": 11.68,
        "mean_jct_h": 4.41,
        "mean_wait_h": 1.47,
        "max_lr": 1.03,
        "fragments_per_round": 5.89,
    },
    "gavel-hops": {
        "makespan_h": 14.46,
        "mean_jct_h": 5.92,
        "mean_wait_h": 2.11,
        "max_lr": 1.31,
        "fragments_per_round": 3.36,
    },
}
"""Table 3, measured on machines; its simulation came out "similar" (Fig. 10)."""


def run(options: Options) -> Result:
    """Compare all policies on the same jobs."""
    of_seeds = runs(SETTING, entrants(*OURS, *RIVALS), options)
    found = {name: medians(seeds) for name, seeds in of_seeds.items()}
    bound = {name: medians(seeds) for name, seeds in bounds(SETTING, options).items()}
    note = f"Medians of {options.seeds} seeds; in brackets the paper's Table 3 and ours over the paper's."
    shown = table("Hops Table 3: 64 GPUs, 25 jobs in 2.5 hours", found, PAPER, note=note, bound=bound)
    return Result("hops-64", (shown,), {"policies": found, "clairvoyant": bound, "seeds": of_seeds, "paper": PAPER})


def calibrate(options: Options) -> Result:
    """Redo the search for the one calibrated constant."""
    return calibration.search("hops-64", SETTING, PAPER, options)


EXPERIMENT = Experiment("hops-64", "Hops' Table 3: 64 GPUs, 25 jobs, every policy", run, calibrate)
