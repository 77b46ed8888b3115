"""Jobs whose owners tell no length: windows of the ITP clusters (ElasticFlow, ASPLOS '23) and of Philly.

A window's jobs run on nodes of 8 GPUs, as many as leave 90 % of them at work. Eight tenants submit, drawn by Zipf's law. Jobs
are `rigid` (one size, never stopped), `movable` (one size) or `elastic` (half to twice their GPUs, speed by GPUs^0.9). The
scheduler knows no duration, but for `sjf`, which knows the true ones as a bound. Two more tables have rigid jobs of which
every second tenant, or each, tells a length that is true within a factor of two.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from portal.pages.laboratory.output.tables import Table
from research.experiments.base import Experiment, Result
from research.experiments.lengths.windows import (
    ALL,
    EXACT,
    GPUS_A_NODE,
    HALF,
    NOTHING,
    WINDOWS,
    Window,
    prepared,
    rows_of,
    runs_of,
)
from research.experiments.scenario import Scenario

if TYPE_CHECKING:
    from pathlib import Path

    from research.experiments.base import Options
    from scheduler.simulator.records import Run

TABLES = {
    ("rigid", NOTHING): ("fifo", "drf", "coda", "hops", "sia", "sjf", "berth"),
    ("movable", NOTHING): ("coda", "hops", "sia", "berth"),
    ("elastic", NOTHING): ("hops", "sia", "berth"),
    ("rigid", HALF): ("hops", "sia", "berth"),
    ("rigid", ALL): ("hops", "sia", "berth"),
}
"""Form of jobs and whose lengths are declared -> the policies that run them."""

QUICK_JOBS, QUICK_WINDOWS, TAUGHT = 100, 2, 200
"""Ranges of lengths are judged after this number of ended jobs."""

COLUMNS = {
    "mean_jct_h": "mean JCT, h",
    "median_jct_h": "median",
    "wait_small_h": "wait below 8 GPUs, h",
    "wait_large_h": "from 8 GPUs",
    "wait_most_large_h": "longest of these",
    "true_ratio_p99": "p99 ratio",
    "true_ratio_max": "largest",
    "makespan_h": "makespan, h",
    "idle_while_queued": "idle while jobs queue",
    "restarts": "restarts",
    "solve_s": "processor time, s",
}
NOTE = "Ratio: waiting over the true length. Idle: the part of the GPUs, while jobs wait."


def scenario(folder: Path, window: Window, form: str, told: str, policy: str, seed: int) -> Scenario:
    from scheduler.simulator.rivals import parameters_for

    says = EXACT if policy == "sjf" else told
    prepare = partial(prepared, folder, window, form, says)
    kept = partial(digest, folder, window)
    return Scenario(prepare, parameters_for(policy), seed, kept, clock=time.process_time)


def digest(folder: Path, window: Window, run: Run) -> dict[str, Any]:
    """Return the report's figures, and those against true lengths, which the scheduler did not know."""
    from scheduler.simulator.report import Steps, figures, mean, quantile

    lengths = {number: row.duration_s for number, row in enumerate(rows_of(folder, window), start=1)}
    ratios = [each.wait_s / lengths[each.job] for each in run.jobs]
    waits_h: dict[bool, list[float]] = {large: [] for large in (False, True)}
    for each in run.jobs:
        waits_h[each.requirement[-1] >= GPUS_A_NODE].append(each.wait_s / 3600)
    steps = Steps.of(run)
    queued = steps.values(lambda each: each.queue_gpu_jobs) > 0
    idle = steps.mean(run.gpus_total - steps.values(lambda each: each.gpus_allocated), queued)
    return figures(run) | {
        "true_ratio_p99": quantile(ratios, 0.99),
        "true_ratio_max": max(ratios),
        "wait_small_h": mean(waits_h[False]),
        "wait_large_h": mean(waits_h[True]),
        "wait_most_large_h": max(waits_h[True], default=None),
        "idle_while_queued": None if idle is None else idle / run.gpus_total,
        "solve_s": sum(each.solve_s for each in run.plannings),
    }


def run(options: Options) -> Result:
    """Compare the policies on each window, by form of jobs and lengths declared; then say how right lengths were."""
    for name in ("itp", "philly"):
        options.folder(name)
    assert options.data is not None
    windows = [each.first_jobs(QUICK_JOBS) for each in WINDOWS[:QUICK_WINDOWS]] if options.quick else list(WINDOWS)
    wanted = [
        (form, told, window, policy) for (form, told), who in TABLES.items() for window in windows for policy in who
    ]
    tasks = [
        scenario(options.data, window, form, told, policy, seed).task()
        for form, told, window, policy in wanted
        for seed in range(1, options.seeds + 1)
    ]
    answers = iter(options.run_all(tasks))
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for form, told, window, policy in wanted:
        seen = [next(answers) for _ in range(options.seeds)]
        means = {key: _mean([each[key] for each in seen]) for key in COLUMNS}
        found.setdefault(f"{form}, {told} declared", {}).setdefault(window.name, {})[policy] = means
    note = NOTE + (f" Quick: the first {QUICK_JOBS} jobs of {QUICK_WINDOWS} windows." if options.quick else "")
    tables = [_table(title, by_window, note) for title, by_window in found.items()]
    covered, table = _coverage(options.data, windows)
    return Result("untold", (*tables, table), {"tables": found, "coverage": covered})


def _mean(values: list[float | None]) -> float | None:
    known = [each for each in values if each is not None]
    return sum(known) / len(known) if known else None


def _table(title: str, by_window: dict[str, dict[str, dict[str, Any]]], note: str) -> Table:
    rows = [
        [name, policy, *(figures[key] for key in COLUMNS)]
        for name, own in by_window.items()
        for policy, figures in own.items()
    ]
    return Table(f"Jobs {title}", ["window", "policy", *COLUMNS.values()], rows, note)


def _coverage(folder: Path, windows: list[Window]) -> tuple[dict[str, Any], Table]:
    """Return how many run times were within the ranges foretold of them, over all of a file's jobs from the window on."""
    from scheduler.estimator.record import coverage_of, overall

    found = {each.name: overall(coverage_of(runs_of(folder, each), skip=TAUGHT).values()) for each in windows}
    rows = [[name, each.jobs, each.half, each.most] for name, each in found.items() if each is not None]
    note = f"After {TAUGHT} ended jobs; each runs as it did in the trace."
    table = Table("Run times within the ranges foretold", ["window", "jobs", "of 50 %", "of 80 %"], rows, note)
    return {name: each and each._asdict() for name, each in found.items()}, table


EXPERIMENT = Experiment("untold", "Jobs of unknown lengths: windows of public traces, against rivals", run)
