"""CODA's evaluation (VI): FIFO, DRF, CODA and Berth on the cluster and the month of jobs that the paper describes.

FIFO and DRF take the cores that tenants asked, as hard needs; for CODA and Berth the simulated service tunes them
(section 8), and none is hard. A window of the month is simulated: the first `WARM_DAYS` fill the cluster and are not
measured. A job counts by the waiting of all its attempts.

- active rate while jobs queue: of the GPUs, in the mean over the time in which GPU jobs wait;
- fragmentation, as VI-C has it: GPUs that are idle for want of cores, over the same time; section 10's figure beside it,
  both kinds over all the time;
- utilisation: of the active GPUs, by the part of their full speed at which jobs ran, times `PEAK`, which is set so that
  FIFO has the paper's.
"""

from __future__ import annotations

import statistics
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from portal.simulations.experiments.base import Experiment, Figure, Result, Table
from portal.simulations.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Sequence

    from portal.simulations.experiments.base import Options
    from scheduler.simulator.generators.coda import Free
    from scheduler.simulator.records import JobRecord, Run
    from scheduler.simulator.truth import TracedJob, World

POLICIES = ("fifo", "drf", "coda", "berth")
TUNING = frozenset({"coda", "berth"})
DAYS, WARM_DAYS = 3.0, 1.0
QUICK_DAYS, QUICK_WARM_DAYS = 0.5, 0.2
DAY_S = 86_400.0
PEAK = 0.73

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
    "fragmentation": "fragmentation (cores)",
    "gpu_jobs_over_10_min": "GPU jobs > 10 min",
    "gpu_jobs_over_1_h": "GPU jobs > 1 h",
    "gpu_jobs_without_waiting": "GPU jobs at once",
    "cpu_jobs_within_10_s": "CPU jobs <= 10 s",
    "cpu_jobs_within_3_min": "CPU jobs <= 3 min",
    "gpu_utilisation": "utilisation",
    "fragment_rate": "fragments (section 10)",
    "gpu_active_rate": "active",
    "queued_share": "time queued",
}

TARGETS = {"gpu_active_rate_while_queued": 0.02, "fragmentation": 0.02, "gpu_jobs_over_10_min": 0.04}
"""What FIFO's figures may be off the paper's."""


def prepare(
    seed: int, *, days: float, tunes_cores: bool, free: Free | None = None
) -> tuple[Sequence[TracedJob], World]:
    """The jobs of so many days and the cluster."""
    import numpy as np

    from scheduler.simulator.generators import coda

    jobs = coda.generate(np.random.default_rng(seed), days=days, free=free or coda.FREE)
    return jobs, coda.world(tunes_cores=tunes_cores)


def digest(run: Run, *, days: float, warm_days: float, free: Free | None = None) -> dict[str, float]:
    """The figures of the measured window; keys as in COLUMNS, and `solve_s`, the wall time of the plannings."""
    from_s, until_s = warm_days * DAY_S, days * DAY_S
    work = {each.job.id: each.work for each in prepare(run.seed, days=days, tunes_cores=False, free=free)[0]}
    mine = [job for job in run.jobs if job.submitted_s >= from_s]
    gpu = [job.wait_s for job in mine if job.requirement != (0,)]
    cpu = [job.wait_s for job in mine if job.requirement == (0,)]
    return {
        **_over_time(run, from_s, until_s),
        "gpu_utilisation": PEAK * _speed([job for job in run.jobs if job.requirement != (0,)], work),
        "gpu_jobs_without_waiting": _part(gpu, lambda wait_s: wait_s <= 1.0),
        "gpu_jobs_over_10_min": _part(gpu, lambda wait_s: wait_s > 600.0),
        "gpu_jobs_over_1_h": _part(gpu, lambda wait_s: wait_s > 3600.0),
        "cpu_jobs_within_10_s": _part(cpu, lambda wait_s: wait_s <= 10.0),
        "cpu_jobs_within_3_min": _part(cpu, lambda wait_s: wait_s <= 180.0),
        "gpu_jobs": float(len(gpu)),
        "cpu_jobs": float(len(cpu)),
        "restarts": float(sum(job.restarts for job in run.jobs)),
        "solve_s": sum(each.solve_s for each in run.plannings),
    }


def _over_time(run: Run, from_s: float, until_s: float) -> dict[str, float]:
    whole = queued = active = active_queued = short = fragments = 0.0
    ends = [*(each.at_s for each in run.plannings[1:]), until_s]
    for each, end_s in zip(run.plannings, ends, strict=True):
        length_s = min(end_s, until_s) - max(each.at_s, from_s)
        if length_s <= 0:
            continue
        whole += length_s
        active += length_s * each.gpus_allocated
        fragments += length_s * each.fragments
        if each.queue_gpu_jobs:
            queued += length_s
            active_queued += length_s * each.gpus_allocated
            short += length_s * each.fragments_cores
    gpus = run.gpus_total
    return {
        "gpu_active_rate_while_queued": active_queued / queued / gpus if queued else 1.0,
        "fragmentation": short / queued / gpus if queued else 0.0,
        "fragment_rate": fragments / whole / gpus,
        "gpu_active_rate": active / whole / gpus,
        "queued_share": queued / whole,
    }


def _speed(jobs: Sequence[JobRecord], work: dict[int, float]) -> float:
    """Of the completed jobs: the part of full speed at which their GPUs worked."""
    done = [job for job in jobs if job.state == "COMPLETED"]
    held = sum(job.gpu_s for job in done)
    return sum(work[job.job] * job.requirement[0] for job in done) / held if held else 0.0


def _part(waits: Sequence[float], counts: Any) -> float:
    return sum(map(counts, waits)) / len(waits) if waits else 0.0


def run(options: Options) -> Result:
    """All four policies."""
    days, warm_days = (QUICK_DAYS, QUICK_WARM_DAYS) if options.quick else (DAYS, WARM_DAYS)
    found = _simulate(options, POLICIES, days, warm_days, None)
    medians = {policy: _medians(each) for policy, each in found.items()}
    rows = [
        (policy, *(Figure(medians[policy][key], PAPER.get(policy, {}).get(key)) for key in COLUMNS))
        for policy in POLICIES
    ]
    note = (
        f"{days - warm_days:g} days measured after {warm_days:g} to fill the cluster, medians of {options.seeds} seeds; in "
        "brackets the paper's month. Without waiting: placed by the planning of its arrival."
    )
    return Result(
        "coda",
        (Table("CODA: 80 nodes, 400 GPUs", ("policy", *COLUMNS.values()), rows, note),),
        {"days": days, "warm_days": warm_days, "seeds": options.seeds, "policies": medians},
    )


def calibrate(options: Options) -> Result:
    """FIFO alone, with the frozen values and with each of the free ones moved: what fixed them."""
    from scheduler.simulator.generators.coda import FREE

    days, warm_days = (QUICK_DAYS, QUICK_WARM_DAYS) if options.quick else (DAYS, WARM_DAYS)
    tried = [FREE, *(replace(FREE, **change) for change in _changes(FREE))]
    figures = [_medians(_simulate(options, ("fifo",), days, warm_days, free)["fifo"]) for free in tried]
    rows = [
        (
            *(getattr(free, name) for name in VARIED),
            *(Figure(own[key], PAPER["fifo"][key]) for key in TARGETS),
            own["cpu_jobs_within_10_s"],
        )
        for free, own in zip(tried, figures, strict=True)
    ]
    within = all(abs(figures[0][key] - PAPER["fifo"][key]) <= most for key, most in TARGETS.items())
    note = (
        f"The first row is frozen and {'within' if within else 'NOT within'} what is asked: "
        + ", ".join(f"{COLUMNS[key]} {PAPER['fifo'][key]:g} +- {most:g}" for key, most in TARGETS.items())
        + f". Medians of {options.seeds} seeds. No other policy was run for it."
    )
    columns = (*VARIED, *(COLUMNS[key] for key in TARGETS), "CPU jobs <= 10 s")
    table = Table("CODA's workload, fixed on FIFO", columns, rows, note)
    return Result("coda", (table,), {"within": within, "seeds": options.seeds, "figures": figures})


VARIED = ("tail", "batch", "cpu_median_h")


def _changes(free: Free) -> list[dict[str, float]]:
    return [{name: getattr(free, name) * factor} for name in VARIED for factor in (0.8, 1.25)]


def _simulate(
    options: Options, policies: Sequence[str], days: float, warm_days: float, free: Free | None
) -> dict[str, list[dict[str, float]]]:
    from scheduler.simulator.rivals import parameters_for

    scenarios = [
        Scenario(
            partial(prepare, days=days, tunes_cores=policy in TUNING, free=free),
            parameters_for(policy),
            seed,
            partial(digest, days=days, warm_days=warm_days, free=free),
            days * DAY_S,
        )
        for policy in policies
        for seed in range(1, options.seeds + 1)
    ]
    answers = options.run_all([scenario.task() for scenario in scenarios])
    return {policy: answers[n * options.seeds : (n + 1) * options.seeds] for n, policy in enumerate(policies)}


def _medians(results: Sequence[dict[str, float]]) -> dict[str, float]:
    return {key: statistics.median(each[key] for each in results) for key in results[0]}


EXPERIMENT = Experiment(
    "coda", "CODA's month: FIFO, DRF, CODA and Berth on 80 nodes with CPU and GPU jobs (CODA VI)", run, calibrate
)
