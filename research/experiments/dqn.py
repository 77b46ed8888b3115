"""DqnGPU's five workloads on one GPU (4.1, 4.2): SJF, Tetris, DeepRM by highest and by mean use, Kube-Knots' three, and DqnGPU.

The learned ones are trained here, by the very same code, each on workloads of all five groups drawn from other seeds than those
they are judged on. The paper's seconds are of its own jobs, so its ratios to SJF stand beside ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from portal.pages.laboratory.output.tables import Table
from portal.pages.laboratory.run.parallel import Task
from research.experiments.base import Experiment, Figure, Result
from research.experiments.dqn_pairs import measured

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from portal.pages.laboratory.run.parallel import Tell
    from research.experiments.base import Options

GROUPS = ("heavy", "light", "memory-heavy", "memory-light", "random")
LEARNED = ("deeprm-max", "deeprm-mean", "dqn")
POLICIES = ("sjf", "tetris", "deeprm-max", "deeprm-mean", "res-ag", "cbp", "cbp-pp", "dqn")
TRAINING_SEED = 1
QUICK_UPDATES = 2

PAPER: dict[str, dict[str, float]] = {
    "heavy": {"sjf": 4807, "dqn": 4891, "deeprm-mean": 5530},
    "light": {"sjf": 2295, "dqn": 1214},
    "memory-heavy": {},
    "memory-light": {"dqn": 3928},
    "random": {"dqn": 2481},
}
"""4.2.1: seconds, where its text names them."""
PAPER_NOT_SLOWED = {"dqn": 20, "tetris": 14, "deeprm-max": 14}
"""4.2.2: of the random workload's 30 jobs."""
PAPER_RATIO = {"tetris": 1.294, "deeprm-max": 1.254, "dqn": 1.027}
"""4.2.3: of the random workload, over SJF, without the training."""
COLUMNS = (
    "policy",
    "total, s",
    "over SJF",
    "GPU use",
    "memory use",
    "not slowed of 30",
    "mean slowdown",
    "worst",
    "out of memory",
)

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class _Train:
    """A learned policy's training, as a task for a process of its own. Answers with the network's layers."""

    policy: str
    updates: int | None

    def __call__(self, tell: Tell) -> Any:
        from research.simulator.sharing.judging import train
        from scheduler.simulator.sharing.training_runs import OBSERVATIONS, Groups

        return train(Groups(OBSERVATIONS[self.policy]), TRAINING_SEED, self.updates, tell)


@dataclass(frozen=True, slots=True)
class _Entry:
    """One policy on one workload, as a task for a process of its own. `layers`: of a learned one."""

    group: str
    policy: str
    seed: int
    layers: Any = None

    def __call__(self, tell: Tell) -> Figures:
        from research.simulator.sharing.judging import judged_on_group

        return judged_on_group(self.policy, self.group, self.seed, self.layers)


def run(options: Options) -> Result:
    """Train the learned policies, and run each policy on each workload; means over the seeds. `data`: measured pairs too."""
    updates = QUICK_UPDATES if options.quick else None
    layers = dict(
        zip(LEARNED, options.run_all([Task(f"train {each}", _Train(each, updates)) for each in LEARNED]), strict=True)
    )
    seeds = range(1, options.seeds + 1)
    tasks = [
        Task(f"{group}, {policy}, seed {seed}", _Entry(group, policy, seed, layers.get(policy)))
        for group in GROUPS
        for policy in POLICIES
        for seed in seeds
    ]
    answers = iter(options.run_all(tasks))
    found = {group: {policy: means([next(answers) for _ in seeds]) for policy in POLICIES} for group in GROUPS}
    tables = tuple(_table(group, found[group], options) for group in GROUPS)
    answer: dict[str, Any] = {"workloads": found}
    if options.data is not None:
        more, answer["pairs"] = measured(options, updates)
        tables = (*tables, *more)
    return Result("dqn", tables, answer)


def means(answers: Sequence[Mapping[str, float]]) -> Figures:
    """Return the mean of each figure."""
    return {name: fmean(answer[name] for answer in answers) for name in answers[0]}


def _table(group: str, found: Mapping[str, Figures], options: Options) -> Table:
    rows = [_row(group, policy, found) for policy in POLICIES]
    note = f"30 jobs on one GPU, means of {options.seeds} seed{'s' if options.seeds > 1 else ''}."
    if options.quick:
        note += (
            f" The learned policies were trained for {QUICK_UPDATES} updates only: this shows that it works, no more."
        )
    return Table(f"DqnGPU, {group}", COLUMNS, rows, note)


def _row(group: str, policy: str, found: Mapping[str, Figures]) -> tuple[Any, ...]:
    own, paper = found[policy], PAPER[group]
    there = paper[policy] / paper["sjf"] if policy in paper and "sjf" in paper else None
    if group == "random":
        there = PAPER_RATIO.get(policy)
    return (
        policy,
        Figure(own["total_s"], paper.get(policy)),
        Figure(own["total_s"] / found["sjf"]["total_s"], there),
        own["gpu_util"],
        own["memory_util"],
        Figure(own["not_slowed"], PAPER_NOT_SLOWED.get(policy) if group == "random" else None),
        own["slowdown"],
        own["worst_slowdown"],
        own["oom"],
    )


EXPERIMENT = Experiment(
    "dqn", "DqnGPU's learned co-placement beside seven rules on five workloads of 30 jobs (4.2)", run
)
