"""Kube-Knots' 520 trainings and 1 400 inference tasks on 32 nodes of 8 GPUs (V-C, VI-E, Table IV), and on half of these GPUs.

Beside one job a GPU, Res-Ag, CBP and CBP+PP stand schedulers as the paper describes Gandiva and Tiresias, and Res-Ag and CBP+PP
as they are served: with what they measure of pairs, and what jobs used before, they put none together that would be slowed by
a fifth, and nobody who was never seen to run beside others while a GPU is idle.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from portal.pages.laboratory.output.tables import Table
from portal.pages.laboratory.run.parallel import Task
from research.experiments.base import Figure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from portal.pages.laboratory.run.parallel import Tell
    from research.experiments.base import Options

POLICIES = ("exclusive", "gandiva", "tiresias", "res-ag", "cbp", "cbp-pp", "res-ag, 20 %", "cbp-pp, 20 %")
ACCEPTED = 0.2
GPUS = (256, 128)
STEP_S, PLAN_EVERY_S = 5.0, 15.0
QUICK_PART = 1 / 8

PAPER = {
    "res-ag": (1.63, 1.67, 1.47),
    "gandiva": (1.36, 1.30, 1.11),
    "tiresias": (1.07, 1.11, 0.91),
    "cbp-pp": (1.0, 1.0, 1.0),
}
"""Table IV: mean, median and 99 % of the completion times over CBP+PP's."""
TIMES = ("jct_mean_s", "jct_median_s", "jct_99_s")
COLUMNS = (
    "policy",
    "mean JCT, s",
    "over Res-Ag",
    "median over Res-Ag",
    "99 % over Res-Ag",
    "late tasks",
    "GPU use, median",
    "99 %",
    "GPU hours held",
    "energy",
    "least energy",
    "moves",
    "crashes",
)

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class _Entry:
    """One policy on one seed's workload, as a task for a process of its own. `part`: of the workload and of the GPUs."""

    policy: str
    gpus: int
    seed: int
    part: float

    def __call__(self, tell: Tell) -> Figures:
        import numpy as np

        from research.simulator.generators.knots import GPU_MIB
        from research.simulator.generators.knots_cluster import knots_cluster
        from research.simulator.sharing.cluster.events import Events
        from research.simulator.sharing.cluster.rivals import Gandiva, Moving, Tiresias
        from research.simulator.sharing.run import Setting, policy_named
        from scheduler.simulator.sharing.training_runs import LAW

        jobs = knots_cluster(np.random.default_rng(self.seed), part=self.part)
        setting = Setting(max(1, round(self.gpus * self.part)), GPU_MIB, step_s=STEP_S, plan_every_s=PLAN_EVERY_S)
        rivals: dict[str, type[Gandiva | Tiresias]] = {"gandiva": Gandiva, "tiresias": Tiresias}
        if self.policy in rivals:
            return Moving(rivals[self.policy](), jobs, setting, LAW).go(tell).figures()
        name, _, served = self.policy.partition(",")
        accepted = ACCEPTED if served else None
        return Events(policy_named(name), jobs, setting, LAW, accepted=accepted).go(tell).figures()


def clustered(options: Options) -> tuple[tuple[Table, ...], dict[str, Any]]:
    """Return a table for each number of GPUs, medians over the seeds, and the figures by GPUs and policy."""
    part = QUICK_PART if options.quick else 1.0
    seeds = range(1, options.seeds + 1)
    tasks = [
        Task(f"{gpus} GPUs, {policy}, seed {seed}", _Entry(policy, gpus, seed, part))
        for gpus in GPUS
        for policy in POLICIES
        for seed in seeds
    ]
    answers = iter(options.run_all(tasks))
    found = {gpus: {policy: _medians([next(answers) for _ in seeds]) for policy in POLICIES} for gpus in GPUS}
    tables = tuple(_table(gpus, found[gpus], part, options.seeds) for gpus in GPUS)
    return tables, {str(gpus): found[gpus] for gpus in GPUS}


def _medians(answers: Sequence[Mapping[str, float]]) -> Figures:
    return {name: median(answer[name] for answer in answers) for name in answers[0]}


def _table(gpus: int, found: Mapping[str, Figures], part: float, seeds: int) -> Table:
    what = "520 trainings and 1 400 inference tasks" if part == 1.0 else f"{part:.0%} of the tasks and of the GPUs"
    note = (
        f"{what}, 12 h of arrivals, medians of {seeds} seed{'s' if seeds > 1 else ''}. Late: an inference task that waited, "
        "stood or was slowed so that its first query took more than 150 ms. GPU use: of GPUs with somebody on them, over time. "
        "Energy: of that with one job a GPU; least: were the same work done on GPUs that are busy throughout, the others asleep."
    )
    return Table(f"Kube-Knots, {gpus} GPUs", COLUMNS, [_row(gpus, policy, found) for policy in POLICIES], note)


def _row(gpus: int, policy: str, found: Mapping[str, Figures]) -> tuple[Any, ...]:
    own, res_ag, exclusive = found[policy], found["res-ag"], found["exclusive"]
    paper: Sequence[float | None] = (None, None, None)
    if gpus == GPUS[0] and policy in PAPER:
        paper = [there / blind for there, blind in zip(PAPER[policy], PAPER["res-ag"], strict=True)]
    over = [Figure(own[name] / res_ag[name], there) for name, there in zip(TIMES, paper, strict=True)]
    return (
        policy,
        own["jct_mean_s"],
        *over,
        own["slo_violations"],
        own["utilisation_50"],
        own["utilisation_99"],
        own["gpu_hours_held"],
        own["energy_kwh"] / exclusive["energy_kwh"],
        own["energy_least_kwh"] / exclusive["energy_kwh"],
        own["moves"],
        own["crashes"],
    )
