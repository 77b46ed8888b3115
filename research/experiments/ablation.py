"""What each rule of `berth` is worth: the same workloads with all of them and with each left out in turn.

A rule whose row differs from the first by nothing but noise on all four workloads earns its place on none of them. Rules
and how they are left out: `scheduler.rules`. With several seeds the figures are medians, and the change that of the medians.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from portal.pages.laboratory.output.tables import Table, cell
from research.experiments.ablation_workloads import workloads
from research.experiments.base import Experiment, Result
from research.experiments.hops.setting import medians
from research.experiments.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from research.experiments.base import Options
    from scheduler.simulator.records import Run

ALL = "all rules"
LARGE_GPUS = 4
COLUMNS = {
    "mean_jct_h": "mean JCT, h",
    "makespan_h": "makespan, h",
    "mean_wait_h": "mean wait, h",
    "max_lr": "max LR",
    "large_wait_mean_h": "mean wait from 4 GPUs, h",
    "large_wait_p99_h": "p99",
    "idle_gpu_h": "idle GPU-h while GPU jobs wait",
    "restarts": "restarts",
    "solve_mean_ms": "planning, ms",
}


def digest(run: Run) -> dict[str, Any]:
    """Return the report's figures, those of large jobs, and those of what is idle while jobs wait."""
    from scheduler.simulator.report import HOUR_S, Steps, figures, mean, quantile

    found = figures(run)
    large = [job.wait_s / HOUR_S for job in run.jobs if job.requirement[0] >= LARGE_GPUS]
    steps = Steps.of(run)
    waits = steps.values(lambda each: each.queue_gpu_jobs) > 0
    idle = run.gpus_total - steps.values(lambda each: each.gpus_allocated)
    return {
        **{
            key: found[key]
            for key in ("mean_jct_h", "makespan_h", "mean_wait_h", "max_lr", "restarts", "jobs_unfinished")
        },
        "large_wait_mean_h": mean(large),
        "large_wait_p99_h": quantile(large, 0.99),
        "idle_gpu_h": float((idle * steps.length_s)[waits].sum()) / HOUR_S,
        "solve_mean_ms": 1000 * (found["solve_mean_s"] or 0.0),
    }


def run(options: Options) -> Result:
    """Return a table for each workload, and one of what each rule is worth in mean JCT over all of them."""
    from scheduler.rules import RULES, without
    from scheduler.simulator.rivals import parameters_for

    whole = parameters_for("berth")
    entrants = {ALL: whole, **{rule: without(whole, rule) for rule in RULES}}
    tried = workloads(options)
    scenarios = [
        Scenario(each.prepare, parameters, seed, digest, clock=time.process_time)
        for each in tried
        for parameters in entrants.values()
        for seed in range(1, (options.seeds if each.seeds else 1) + 1)
    ]
    answers = iter(options.run_all([scenario.task() for scenario in scenarios]))
    found = {
        each.name: {
            name: medians([next(answers) for _ in range(options.seeds if each.seeds else 1)], tuple(COLUMNS))
            for name in entrants
        }
        for each in tried
    }
    size = "A small part of each workload. " if options.quick else ""
    note = (
        f"{size}In brackets the change against all rules, per cent; medians of {options.seeds} seeds where one draws anything. "
        "Planning: processor time of a planning, mean."
    )
    tables = [_table(name, figures, note) for name, figures in found.items()]
    return Result("ablation", (*tables, _summary(found)), {"workloads": found})


def change_pct(own: float | None, whole: float | None) -> float | None:
    """Return by how many per cent it is more than with all rules; None when there is nothing to compare with."""
    return None if own is None or not whole else 100.0 * (own / whole - 1.0)


def _table(name: str, figures: Mapping[str, Mapping[str, float | None]], note: str) -> Table:
    rows = [
        [ALL if rule == ALL else f"without {rule}", *(_changed(own, figures[ALL], key) for key in COLUMNS)]
        for rule, own in figures.items()
    ]
    return Table(name, ["rules", *COLUMNS.values()], rows, note)


def _changed(own: Mapping[str, float | None], whole: Mapping[str, float | None], key: str) -> str:
    change = None if own is whole else change_pct(own[key], whole[key])
    return cell(own[key]) if change is None else f"{cell(own[key])} ({change:+.1f})"


def _summary(found: Mapping[str, Mapping[str, Mapping[str, float | None]]]) -> Table:
    rules: Sequence[str] = [rule for rule in next(iter(found.values())) if rule != ALL]
    keys = {"mean_jct_h": "JCT", "max_lr": "max LR"}
    rows = [
        [
            rule,
            *(_signed(change_pct(figures[rule][key], figures[ALL][key])) for figures in found.values() for key in keys),
        ]
        for rule in rules
    ]
    columns = [f"{name}: {word}" for name in found for word in keys.values()]
    return Table("What leaving a rule out changes, per cent", ["rule", *columns], rows, "More is worse.")


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+.1f}"


EXPERIMENT = Experiment("ablation", "What each rule of berth is worth: each left out in turn, on four workloads", run)
