"""CODA with and without its contention eliminator (VI-E; algorithms.md section 9), on CODA's cluster and workload.

The same jobs run under policy `coda` with tuned cores, once with CPU jobs held back that take a node's memory bandwidth
from training jobs, once without; for several parts of the CPU jobs with such traffic, of which the paper has 0.5 %. The
GPU jobs are `LOAD` times the month's, as in `coda-pressed`: under the month's own load nobody queues here.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from portal.pages.laboratory.output.tables import Table
from research.experiments.base import Experiment, Figure, Result
from research.experiments.coda import DAY_S, medians_of
from research.experiments.coda_pressed import LOAD
from research.experiments.coda_runs.figures import figures_of, queued_jobs
from research.experiments.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Sequence

    from research.experiments.base import Options
    from scheduler.simulator.records import Run
    from scheduler.simulator.world.truth import TracedJob, World

HEAVY = (0.005, 0.05)
"""Parts of the CPU jobs that draw more than a node's memory can do; the first is the paper's."""
DAYS, WARM_DAYS = 2.0, 1.0
QUICK_DAYS, QUICK_WARM_DAYS = 0.3, 0.1

PAPER = {"utilisation_lost": 0.023, "queue_times": 2.0}
"""VI-E, without the eliminator: "decreased by 2.3 %" and "the overall number of queueing tasks doubles"."""


def prepare(seed: int, *, days: float, heavy: float, relieves: bool) -> tuple[Sequence[TracedJob], World]:
    """The jobs and the cluster; the jobs are the same but for which CPU jobs have traffic."""
    import numpy as np

    from research.simulator.generators import coda

    jobs = coda.generate(np.random.default_rng(seed), days=days, load=LOAD, heavy=heavy)
    return jobs, coda.world(tunes_cores=True, relieves_memory=relieves)


def digest(run: Run, *, days: float, warm_days: float, heavy: float) -> dict[str, float | None]:
    """The figures of the measured window."""
    jobs, _ = prepare(run.seed, days=days, heavy=heavy, relieves=False)
    work = {each.job.id: each.work for each in jobs}
    traffic = {each.job.id for each in jobs if each.bandwidth_gbs}
    from_s, until_s = warm_days * DAY_S, days * DAY_S
    slowed = [job.ran_s / work[job.job] for job in run.jobs if job.job in traffic and job.state == "COMPLETED"]
    return {
        **figures_of(run, work, from_s, until_s),
        "queued_gpu_jobs": queued_jobs(run, from_s, until_s),
        "traffic_jobs_slowed": sum(slowed) / len(slowed) if slowed else None,
    }


def run(options: Options) -> Result:
    """Each part of heavy traffic with the eliminator and without."""
    days, warm_days = (QUICK_DAYS, QUICK_WARM_DAYS) if options.quick else (DAYS, WARM_DAYS)
    cases = [(heavy, relieves) for heavy in HEAVY for relieves in (True, False)]
    found = _simulate(options, cases, days, warm_days)
    rows = [row for n in range(0, len(cases), 2) for row in _rows(cases[n][0], found[n], found[n + 1])]
    note = (
        f"Policy coda with tuned cores, {LOAD:g} times the GPU jobs; {days - warm_days:g} days measured after {warm_days:g}, "
        f"medians of {options.seeds} seeds. Lost and times: against the row with the eliminator; in brackets the paper, which "
        "has 0.5 % of heavy CPU jobs. Slowed: run time of the heavy CPU jobs over that alone."
    )
    columns = (
        "heavy CPU jobs",
        "eliminator",
        "utilisation",
        "lost",
        "GPU jobs queued",
        "times",
        "GPU jobs > 10 min",
        "heavy ones slowed",
    )
    table = Table("CODA's contention eliminator", columns, rows, note)
    figures = {f"{heavy:g}": {"with": found[2 * n], "without": found[2 * n + 1]} for n, heavy in enumerate(HEAVY)}
    return Result("contention", (table,), {"load": LOAD, "days": days, "warm_days": warm_days, "heavy": figures})


Figures = dict[str, float | None]


def _simulate(options: Options, cases: Sequence[tuple[float, bool]], days: float, warm_days: float) -> list[Figures]:
    from scheduler.simulator.rivals import parameters_for

    scenarios = [
        Scenario(
            partial(prepare, days=days, heavy=heavy, relieves=relieves),
            parameters_for("coda"),
            seed,
            partial(digest, days=days, warm_days=warm_days, heavy=heavy),
            days * DAY_S,
        )
        for heavy, relieves in cases
        for seed in range(1, options.seeds + 1)
    ]
    answers = options.run_all([scenario.task() for scenario in scenarios])
    return [medians_of(answers[n * options.seeds : (n + 1) * options.seeds]) for n in range(len(cases))]


def _rows(heavy: float, held: Figures, left: Figures) -> list[Sequence[object]]:
    papers = PAPER if heavy == HEAVY[0] else {}
    lost = 1.0 - (left["gpu_utilisation"] or 0.0) / (held["gpu_utilisation"] or 1.0)
    times = (left["queued_gpu_jobs"] or 0.0) / held["queued_gpu_jobs"] if held["queued_gpu_jobs"] else None
    return [
        (f"{100 * heavy:g} %", "on", *_own(held, None, None)),
        (
            f"{100 * heavy:g} %",
            "off",
            *_own(left, Figure(lost, papers.get("utilisation_lost")), Figure(times, papers.get("queue_times"))),
        ),
    ]


def _own(own: Figures, lost: Figure | None, times: Figure | None) -> tuple[object, ...]:
    return (
        own["gpu_utilisation"],
        lost,
        own["queued_gpu_jobs"],
        times,
        own["gpu_jobs_over_10_min"],
        own["traffic_jobs_slowed"],
    )


EXPERIMENT = Experiment(
    "contention",
    "CODA's contention eliminator on and off, for more and more memory traffic of CPU jobs (CODA VI-E)",
    run,
)
