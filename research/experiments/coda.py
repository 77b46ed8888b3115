"""CODA's evaluation (VI): FIFO, DRF, CODA and Berth on the cluster and the month of jobs that the paper describes.

FIFO and DRF take the cores that tenants asked, as hard needs; for CODA and Berth jobs begin by the service's rule,
the simulated service tunes them (section 8), and none is hard. A window of the month is simulated: the first
`WARM_DAYS` fill the cluster and are not measured. A job counts by the waiting of all its attempts. The figures are
in `coda_runs.figures`, job by job in `coda_runs.jobs`.
"""

from __future__ import annotations

import statistics
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from portal.pages.laboratory.output.tables import Table
from research.experiments.base import Experiment, Figure, Result
from research.experiments.coda_runs.figures import figures_of
from research.experiments.coda_runs.jobs import jobs_of, tables_of
from research.experiments.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from research.experiments.base import Options
    from research.simulator.generators.coda import Free
    from scheduler.simulator.records import Run
    from scheduler.simulator.world.truth import TracedJob, World

POLICIES = ("fifo", "drf", "coda", "berth")
TUNING = frozenset({"coda", "berth"})
DAYS, WARM_DAYS = 3.0, 1.0
TUNES = (
    "For coda and berth the simulated service tunes cores on line, by the function that the real service calls; there an order "
    "takes seconds to hold, and figures are noisy."
)
QUICK_DAYS, QUICK_WARM_DAYS = 0.5, 0.2
DAY_S = 86_400.0
JOBS = "jobs"
"""The key of a run's figures under which its single jobs stand."""

PAPER: dict[str, dict[str, float]] = {
    "fifo": {
        "gpu_active_rate_while_queued": 0.835,
        "fragmentation": 0.143,
        "gpu_jobs_over_10_min": 0.431,
        "gpu_jobs_over_1_h": 0.278,
        "cpu_jobs_within_10_s": 0.874,
        "gpu_utilisation": 0.454,
    },
    "drf": {
        "gpu_active_rate_while_queued": 0.833,
        "fragmentation": 0.146,
        "gpu_jobs_over_10_min": 0.289,
        "gpu_jobs_over_1_h": 0.143,
        "cpu_jobs_within_10_s": 0.878,
        "gpu_utilisation": 0.447,
    },
    "coda": {
        "gpu_active_rate_while_queued": 0.912,
        "fragmentation": 0.01,
        "gpu_jobs_over_10_min": 0.079,
        "gpu_jobs_without_waiting": 0.921,
        "cpu_jobs_within_3_min": 0.945,
        "gpu_utilisation": 0.621,
    },
}
"""VI-B and VI-C; of CODA's fragmentation and long waits only upper bounds are told."""

COLUMNS = {
    "gpu_active_rate_while_queued": "active while queued",
    "queued_share": "time queued",
    "gpu_active_rate_while_queued_long": "active while one waits > 30 s",
    "queued_long_share": "time so",
    "fragmentation": "fragmentation (cores)",
    "gpu_jobs_over_10_min": "GPU jobs > 10 min",
    "gpu_jobs_over_1_h": "GPU jobs > 1 h",
    "gpu_jobs_without_waiting": "GPU jobs at once",
    "cpu_jobs_within_10_s": "CPU jobs <= 10 s",
    "cpu_jobs_within_3_min": "CPU jobs <= 3 min",
    "gpu_utilisation": "utilisation",
    "fragment_rate": "fragments (section 10)",
    "gpu_active_rate": "active",
}

TARGETS = {"gpu_active_rate_while_queued": 0.02, "fragmentation": 0.02, "gpu_jobs_over_10_min": 0.04}
"""What FIFO's figures may be off the paper's."""

VARIED = ("tail", "batch", "cpu_median_h")
TRIED: tuple[dict[str, float], ...] = ({"cpu_median_h": 0.75},)
"""Of the free values, what was tried on all seeds before those that are frozen."""


def prepare(
    seed: int, *, days: float, tunes_cores: bool, free: Free | None = None, load: float = 1.0
) -> tuple[Sequence[TracedJob], World]:
    """Return the jobs of this many days, with `load` times as many GPU jobs, and the cluster."""
    import numpy as np

    from research.simulator.generators import coda

    jobs = coda.generate(np.random.default_rng(seed), days=days, free=free or coda.FREE, load=load)
    return jobs, coda.world(tunes_cores=tunes_cores)


def digest(run: Run, *, days: float, warm_days: float, free: Free | None = None, load: float = 1.0) -> dict[str, Any]:
    """Return the figures of the measured window, and its single jobs."""
    jobs, _ = prepare(run.seed, days=days, tunes_cores=False, free=free, load=load)
    work = {each.job.id: each.work for each in jobs}
    figures = figures_of(run, work, warm_days * DAY_S, days * DAY_S)
    return {**figures, JOBS: jobs_of(run, {each.job.id: each for each in jobs}, warm_days * DAY_S)}


def run(options: Options) -> Result:
    """Compare all four policies."""
    days, warm_days = (QUICK_DAYS, QUICK_WARM_DAYS) if options.quick else (DAYS, WARM_DAYS)
    found = simulate(options, POLICIES, days, warm_days)
    single, figures = tables_of({policy: [each.pop(JOBS) for each in runs] for policy, runs in found.items()})
    medians = {policy: medians_of(each) for policy, each in found.items()}
    rows = [
        (policy, *(Figure(medians[policy][key], PAPER.get(policy, {}).get(key)) for key in COLUMNS))
        for policy in POLICIES
    ]
    note = (
        f"{days - warm_days:g} days measured after {warm_days:g} to fill the cluster, medians of {options.seeds} seeds; in "
        "brackets the paper's month. At once: at most a second of waiting in all. Rates while jobs queue are of the seeds in "
        f"which GPU jobs did: {_queueing(found)}. {TUNES}"
    )
    return Result(
        "coda",
        (Table("CODA: 80 nodes, 400 GPUs", ("policy", *COLUMNS.values()), rows, note), *single),
        {"days": days, "warm_days": warm_days, "seeds": options.seeds, "policies": medians, "runs": found, **figures},
    )


def calibrate(options: Options) -> Result:
    """Show FIFO alone, with the frozen values and with those that were tried before them."""
    from research.simulator.generators.coda import FREE

    days, warm_days = (QUICK_DAYS, QUICK_WARM_DAYS) if options.quick else (DAYS, WARM_DAYS)
    tried = [FREE, *(replace(FREE, **change) for change in TRIED)]
    runs = [simulate(options, ("fifo",), days, warm_days, free=free)["fifo"] for free in tried]
    figures = [medians_of(each) for each in runs]
    rows = [
        (
            *(getattr(free, name) for name in VARIED),
            *(Figure(own[key], PAPER["fifo"][key]) for key in TARGETS),
            own["cpu_jobs_within_10_s"],
        )
        for free, own in zip(tried, figures, strict=True)
    ]
    within = all(_is_near(figures[0][key], PAPER["fifo"][key], most) for key, most in TARGETS.items())
    note = (
        f"The first row is frozen and {'within' if within else 'NOT within'} what is asked: "
        + ", ".join(f"{COLUMNS[key]} {PAPER['fifo'][key]:g} +- {most:g}" for key, most in TARGETS.items())
        + f". Medians of {options.seeds} seeds. No other policy was run for it."
    )
    columns = (*VARIED, *(COLUMNS[key] for key in TARGETS), "CPU jobs <= 10 s")
    table = Table("CODA's workload, fixed on FIFO", columns, rows, note)
    return Result("coda", (table,), {"within": within, "seeds": options.seeds, "figures": figures, "runs": runs})


def _is_near(ours: float | None, paper: float, most: float) -> bool:
    return ours is not None and abs(ours - paper) <= most


def simulate(
    options: Options,
    policies: Sequence[str],
    days: float,
    warm_days: float,
    *,
    free: Free | None = None,
    load: float = 1.0,
) -> dict[str, list[dict[str, Any]]]:
    """Return the figures of each policy, one for each seed."""
    from scheduler.simulator.rivals import parameters_for

    scenarios = [
        Scenario(
            partial(prepare, days=days, tunes_cores=policy in TUNING, free=free, load=load),
            parameters_for(policy),
            seed,
            partial(digest, days=days, warm_days=warm_days, free=free, load=load),
            days * DAY_S,
        )
        for policy in policies
        for seed in range(1, options.seeds + 1)
    ]
    answers = options.run_all([scenario.task() for scenario in scenarios])
    return {policy: answers[n * options.seeds : (n + 1) * options.seeds] for n, policy in enumerate(policies)}


def medians_of(results: Sequence[dict[str, Any]]) -> dict[str, float | None]:
    """Return the median of each figure over the seeds that have it."""
    return {
        key: _median([value for each in results if (value := each[key]) is not None])
        for key in results[0]
        if key != JOBS
    }


def _queueing(found: Mapping[str, Sequence[dict[str, Any]]]) -> str:
    """Say in how many seeds of each policy jobs queued."""
    return ", ".join(f"{policy} {sum(bool(each['queued_share']) for each in runs)}" for policy, runs in found.items())


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


EXPERIMENT = Experiment(
    "coda", "CODA's month: FIFO, DRF, CODA and Berth on 80 nodes with CPU and GPU jobs (CODA VI)", run, calibrate
)
