"""Kube-Knots' three mixes on ten GPUs (VI-A to VI-D): one job a GPU, Res-Ag, CBP and CBP+PP on the same arrivals.

The policies are `scheduler.sharing`'s; the jobs are drawn (`research.simulator.generators.knots` says to what). A signature
is known from the end of its first run on, so each run begins with nobody known. The large cluster stands in `knots_cluster`.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from portal.pages.laboratory.output.tables import Table
from portal.pages.laboratory.run.parallel import Task
from research.experiments.base import Experiment, Figure, Result
from research.experiments.knots_cluster import clustered

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from portal.pages.laboratory.run.parallel import Tell
    from research.experiments.base import Options

POLICIES = ("exclusive", "res-ag", "cbp", "cbp-pp")
MIXES = (1, 2, 3)
N_GPUS, HOURS, QUICK_HOURS = 10, 1.0, 0.1

PAPER_LATE = {1: {"res-ag": 0.53, "cbp": 0.01, "cbp-pp": 0.01}, 3: {"res-ag": 0.10, "cbp": 0.01, "cbp-pp": 0.01}}
"""VI-B: "violating by up to 10% (app-mix-3) and 53% (app-mix-1)", "almost no violations (<1%)"."""
PAPER_GAIN = {1: 1.80, 2: 1.60, 3: 1.45}
"""VI-A: median and tail utilisation of CBP+PP over Res-Ag's."""

COLUMNS = (
    "policy",
    "GPU use, median",
    "over Res-Ag",
    "99 %",
    "late queries",
    "energy",
    "mean JCT, s",
    "over CBP+PP",
    "99 % JCT, s",
    "crashes",
)

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class _Entry:
    """One policy on one mix with one seed, as a task for a process of its own."""

    mix: int
    policy: str
    seed: int
    hours: float

    def __call__(self, tell: Tell) -> Figures:
        import numpy as np

        from research.simulator.generators.knots import GPU_MIB, knots_mix
        from research.simulator.sharing.run import Run, Setting, policy_named

        jobs = knots_mix(self.mix, np.random.default_rng(self.seed), n_gpus=N_GPUS, hours=self.hours)
        run = Run(policy_named(self.policy), jobs, Setting(N_GPUS, GPU_MIB))
        return run.go(tell).figures()


def run(options: Options) -> Result:
    """Compare the policies on each mix; medians over the seeds."""
    hours = QUICK_HOURS if options.quick else HOURS
    seeds = range(1, options.seeds + 1)
    tasks = [
        Task(f"mix {mix}, {policy}, seed {seed}", _Entry(mix, policy, seed, hours))
        for mix in MIXES
        for policy in POLICIES
        for seed in seeds
    ]
    answers = iter(options.run_all(tasks))
    found = {mix: {policy: _medians([next(answers) for _ in seeds]) for policy in POLICIES} for mix in MIXES}
    tables = tuple(_table(mix, found[mix], hours, options.seeds) for mix in MIXES)
    large, by_gpus = clustered(options)
    json = {"hours": hours, "mixes": {str(mix): found[mix] for mix in MIXES}, "cluster": by_gpus}
    return Result("knots", (*tables, *large), json)


def _medians(answers: Sequence[Mapping[str, float]]) -> Figures:
    return {name: median(answer[name] for answer in answers) for name in answers[0]}


def _table(mix: int, found: Mapping[str, Figures], hours: float, seeds: int) -> Table:
    rows = [_row(mix, policy, found) for policy in POLICIES]
    note = (
        f"Ten GPUs, {hours:g} h of arrivals, medians of {seeds} seeds. GPU use: percentiles over time, mean of the GPUs. "
        "Late: over 150 ms, those that wait for a place included. Energy: of that with one job a GPU. JCT: of batch jobs."
    )
    return Table(f"Kube-Knots, mix {mix}", COLUMNS, rows, note)


def _row(mix: int, policy: str, found: Mapping[str, Figures]) -> tuple[Any, ...]:
    own, res_ag, best = found[policy], found["res-ag"], found["cbp-pp"]
    gain = own["utilisation_50"] / res_ag["utilisation_50"] if res_ag["utilisation_50"] else None
    return (
        policy,
        own["utilisation_50"],
        Figure(gain, PAPER_GAIN[mix] if policy == "cbp-pp" else None),
        own["utilisation_99"],
        Figure(own["slo_violations"], PAPER_LATE.get(mix, {}).get(policy)),
        own["energy_kwh"] / found["exclusive"]["energy_kwh"],
        own["jct_mean_s"],
        own["jct_mean_s"] / best["jct_mean_s"] if best["jct_mean_s"] else None,
        own["jct_99_s"],
        own["crashes"],
    )


EXPERIMENT = Experiment(
    "knots", "Kube-Knots' CBP and CBP+PP beside Res-Ag and one job a GPU, on three mixes of jobs that share (VI)", run
)
