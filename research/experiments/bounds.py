"""The clairvoyant schedules of every workload in one table: what knowledge and free placement would give (`clairvoyance`)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from portal.pages.laboratory.output.tables import Table
from research.experiments import sia
from research.experiments.base import Experiment, Result
from research.experiments.clairvoyance import NOTE, ROWS, Clairvoyance
from research.experiments.hops import gpus_64, gpus_512
from research.experiments.hops.setting import bounds, medians

if TYPE_CHECKING:
    from collections.abc import Mapping

    from research.experiments.base import Options

COLUMNS = {
    "mean_jct_h": "mean JCT, h",
    "mean_wait_h": "mean wait, h",
    "makespan_h": "makespan, h",
    "mean_lr": "mean LR",
    "max_lr": "max LR",
}


def run(options: Options) -> Result:
    """Return the schedules of Hops' two workloads, and with `--data` those of Sia's in its three forms."""
    found: dict[str, Mapping[str, Mapping[str, Any]]] = {}
    for name, setting in (("hops-512", gpus_512.SETTING), ("hops-64", gpus_64.SETTING)):
        found[name] = {row: medians(seeds, tuple(COLUMNS)) for row, seeds in bounds(setting, options).items()}
    if options.data is not None:
        folder = options.folder("sia")
        for jobs in (sia.ADAPTIVE, sia.TUNED, sia.SCALED):
            prepare = partial(sia.prepared, folder, folder / sia.TRACE, jobs, None)
            answers = options.run_all([Clairvoyance(prepare, 1, row).task() for row in ROWS])
            found[f"sia, {jobs}"] = dict(zip(ROWS, answers, strict=True))
    rows = [
        [workload, row.removeprefix("clairvoyant, "), *(figures[key] for key in COLUMNS)]
        for workload, both in found.items()
        for row, figures in both.items()
    ]
    note = f"Medians of {options.seeds} seeds (Sia's trace: there is one). {NOTE}"
    return Result(
        "clairvoyant",
        (Table("What clairvoyance would give", ["workload", "order", *COLUMNS.values()], rows, note),),
        {"workloads": found},
    )


EXPERIMENT = Experiment(
    "clairvoyant", "What a scheduler that knew everything could do with Hops' and Sia's workloads", run
)
