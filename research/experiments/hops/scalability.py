"""Hops 4.7 (Fig. 15): time of a planning by cluster size, and by number of jobs on 512 GPUs, on one core.

The paper's are Gurobi's: within 10 s up to 500 GPUs at gap 0.01; at gap 0.05 about 6 s on 1 000 GPUs and 17 s on 1 500.
Ours are whole plannings of Hops' policy at its own gap, ordering, configurations, re-plans and explanations included.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

from portal.pages.laboratory.output.tables import Table
from research.experiments.base import Experiment, Figure, Result
from research.experiments.hops.setting import Setting, entrants, runs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from research.experiments.base import Options

GPUS = (64, 128, 256, 512, 1024, 1536)
JOBS = (100, 500, 1000, 2000)
POLICIES = ("hops", "berth")
HOURS = 2.0
"""Simulated at each size: as many jobs arrive as the cluster is large, so its queue is full well before."""

PAPER_S = {512: 10.0, 1024: 6.0, 1536: 17.0}
"""Fig. 15 and the text: "mostly within 10 s" on 512 at gap 0.01; about 1 000 and 1 500 at gap 0.05."""


def run(options: Options) -> Result:
    """Return the two tables."""
    sizes = GPUS[:3] if options.quick else GPUS
    counts = JOBS[:1] if options.quick else JOBS
    by_gpus = {str(gpus): _measured(_of_size(gpus), HOURS, options) for gpus in sizes}
    by_jobs = {str(jobs): _measured(Setting(jobs=jobs), jobs / 100.0, options) for jobs in counts}
    tables = (
        _table("Hops 4.7: seconds a planning, by GPUs", "GPUs", by_gpus, PAPER_S, options),
        _table("Hops 4.7: seconds a planning on 512 GPUs, by jobs", "jobs", by_jobs, {}, options),
    )
    return Result("scalability", tables, {"solve_by_gpus": by_gpus, "solve_by_jobs": by_jobs, "solve_paper": PAPER_S})


def _of_size(gpus: int) -> Setting:
    """Return a setting of this size. Arrivals grow with the cluster, as in the paper."""
    per_hour = 100.0 * gpus / 512
    return Setting(gpus=gpus, jobs=round(per_hour * HOURS * 1.2), per_hour=per_hour)


def _measured(setting: Setting, hours: float, options: Options) -> dict[str, dict[str, float | None]]:
    of_seeds = runs(setting, entrants(*POLICIES), options, until_s=hours * 3600.0)
    return {
        name: {key: _middle(seeds, key) for key in ("solve_p50_s", "solve_p95_s", "solve_max_s")}
        for name, seeds in of_seeds.items()
    }


def _middle(seeds: Sequence[Mapping[str, Any]], key: str) -> float | None:
    known = [float(each[key]) for each in seeds if each.get(key) is not None]
    return median(known) if known else None


def _table(
    title: str,
    by: str,
    found: Mapping[str, Mapping[str, Mapping[str, float | None]]],
    paper: Mapping[int, float],
    options: Options,
) -> Table:
    rows = [
        [int(size), name, own["solve_p50_s"], Figure(own["solve_p95_s"], paper.get(int(size))), own["solve_max_s"]]
        for size, policies in found.items()
        for name, own in policies.items()
    ]
    note = f"Medians of {options.seeds} seeds; wall time on one core; in brackets the paper's solver alone (Gurobi)."
    return Table(title, [by, "policy", "median, s", "95th percentile, s", "longest, s"], rows, note)


EXPERIMENT = Experiment("scalability", "Hops 4.7: time of a planning by GPUs and by jobs", run)
